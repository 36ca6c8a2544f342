/* The fleet page in the browser: the view in the address, and steps pushed into rows. The server sorts, filters and groups. */
(function () {
  "use strict";

  const GRID = "fleet-grid";
  const CHOICE = "choice"; // the column of boxes, which is first
  const NAMES = "run";
  const PHONE_NAMES = 160; // pixels of the column of names where the screen is narrow
  const MOST_FOR_NAMES = 350; // pixels of a wide table that the names take beside their column's own
  const SPARKLINE_POINTS = 40;
  const KEPT_STEPS = 500; // the newest ones of as many runs
  const LONGEST_READ_MS = 5000;
  const MOST_CLOSED = 100; // groups, as many as the collector takes
  const REMEMBERED = "rlvitals-fleet";
  const FILTERS = { run: "fleet-text", project: "fleet-project", state: "fleet-status", group: "fleet-group", curve: "fleet-curve" };
  const EMPTY = { run: "", project: null, state: "all", group: null, curve: "" };
  const collapsed = new Set();
  const pushed = new Map(); // id of a run -> its newest step that was pushed
  let openedFor = null; // the description of the table that is drawn
  let shownFor = null; // the filters whose rows the table shows
  let closedFor = ""; // the groups that it shows closed
  let changes = 0; // of the rows that are asked for, since the table is open
  let current = {}; // what is set above the table
  let choices = {}; // what some of it may be
  let columns = []; // of the table
  let isOpening = false; // the table does not have its columns yet
  let view = null; // the saved view that was opened last
  let isViewChanged = false;

  const grid = () => window.dash_ag_grid && document.getElementById(GRID) && window.dash_ag_grid.getApi(GRID);
  const rowHeight = () => (document.documentElement.dataset.wall ? 80 : 54);
  const setProps = (id, properties) => window.dash_clientside.set_props(id, properties);

  /* Called when a control changes: opens the table once there is a run, and lets it read its rows anew from the top. */
  function arrangeFleet(count, run, project, state, group, archived, curve, _collapsed, table, library, views, groups, states) {
    choices = { group: Object.keys(groups), state: states };
    current = { run, project, state, group, curve, archived: archived.length > 0 };
    window.rlvitals.curves.choose(curve);
    if (count && openedFor !== table) openFleet(table, library, views);
    else if (grid() && !isOpening) readAnew();
    remember();
    return "";
  }

  const askedOf = ({ run, project, state, group, archived }) => JSON.stringify([run, project, state, group, archived]);

  /* The shown rows stay until the new rows arrive; after a change of settings the table says that it loads. */
  function readAnew() {
    const api = grid();
    const asked = askedOf(current);
    const closed = [...collapsed].join("\n");
    if (asked !== shownFor && api.getDisplayedRowCount()) api.ensureIndexVisible(0, "top");
    if (asked !== shownFor || closed !== closedFor) beginLoading(api);
    shownFor = asked;
    closedFor = closed;
    api.refreshInfiniteCache();
  }

  function beginLoading(api) {
    changes += 1;
    api.setGridOption("context", { change: changes }); // each request holds it, and the answer names it
    api.setGridOption("loading", true);
  }

  /* An answer to an earlier request, or to a request that no reader caused, does not end the loading. */
  function endFleetLoading(change) {
    if (grid() && change === changes) grid().setGridOption("loading", false);
    return window.dash_clientside.no_update;
  }

  function readFleetAgain() {
    if (grid() && !isOpening) grid().refreshInfiniteCache();
    return window.dash_clientside.no_update;
  }

  function toggleFleetGroup(key) {
    if (!collapsed.delete(key)) collapsed.add(key);
    if (collapsed.size > MOST_CLOSED) collapsed.delete(collapsed.values().next().value);
    setProps("fleet-collapsed", { data: [...collapsed] });
  }

  window.dashAgGridFunctions = Object.assign(window.dashAgGridFunctions || {}, {
    isFleetTab: ({ event }) => event.key === "Tab", // the browser's own order: AG Grid knows cells alone, and not what is in them
    /* The focus moves from the last heading to the first row; AG Grid itself would return to the first heading. */
    nextFleetHeader({ api, backwards, nextHeaderPosition: next }) {
      if (backwards || (next && next.column !== api.getAllDisplayedColumns()[0])) return next || false;
      const first = document.querySelector("#fleet-grid :is(.fleet-choice, .fleet-group)");
      if (first) setTimeout(() => first.focus());
      return Boolean(first);
    },
    isFleetGroup: ({ rowNode }) => Boolean(rowNode.data && rowNode.data.is_head),
  });

  /* The address holds the settings, so that they can be sent to another person; this browser remembers them as well. */
  function query() {
    const asked = new URLSearchParams();
    for (const name in FILTERS) if (current[name] && current[name] !== EMPTY[name]) asked.set(name, current[name]);
    if (current.archived) asked.set("archived", "1");
    const api = grid();
    if (api && !isOpening) {
      const sorted = sortsOf(api);
      if (sorted.length) asked.set("sort", sorted.map((column) => `${column.colId}:${column.sort}`).join());
      const shown = shownColumns(api).join();
      if (shown !== api.rlvitalsColumns) asked.set("columns", shown);
      const filters = api.getFilterModel();
      if (Object.keys(filters).length) asked.set("filter", JSON.stringify(filters));
    }
    return asked.toString();
  }

  function remember() {
    if (isOpening || window.location.pathname !== "/" || !grid()) return;
    const asked = query();
    window.rlvitals.keep(REMEMBERED, asked);
    const isView = view && view.query === asked;
    const address = isView ? `view=${view.id}` : asked;
    noteChange(Boolean(view) && !isView);
    window.history.replaceState(window.history.state, "", address ? `/?${address}` : "/");
  }

  /* The menu still names the view after a change of its settings, so the change is stated beside it. */
  function noteChange(isChanged) {
    if (isChanged !== isViewChanged) setProps("fleet-view-state", { children: isChanged ? "changed, not saved" : "" });
    isViewChanged = isChanged;
  }

  /* Loads the table's library, applies the settings of the address (or those of this browser), and draws the table. */
  async function openFleet(table, library, views) {
    isOpening = true;
    openedFor = table;
    changes = 0;
    if (collapsed.size) setProps("fleet-collapsed", { data: [...collapsed] }); // another page was shown meanwhile
    columns = table.props.columnDefs;
    const given = new URLSearchParams(window.location.search || window.rlvitals.kept(REMEMBERED) || "");
    view = views.find((each) => each.id === given.get("view")) || null;
    const asked = readAsked(view ? view.query : given);
    if (view) setProps("fleet-view", { value: view.id });
    restoreFilters(asked);
    await window.rlvitals.load(library);
    if (openedFor !== table || !document.getElementById("fleet-table")) return; // another page is shown by now
    setProps("fleet-table", { children: table });
    opened(await window.dash_ag_grid.getApiAsync(GRID), asked);
  }

  /* Shows which settings are not applied, and returns the others. */
  function readAsked(given) {
    const { asked, note } = window.rlvitals.fleetAddress.read(given, view, columns, choices);
    sayLeftOut(note);
    return asked;
  }

  function sayLeftOut(note) {
    setProps("fleet-left-out", { children: note, hidden: !note });
  }

  /* Settings that the reader has changed before the table was drawn are kept. */
  function restoreFilters(asked) {
    for (const name in FILTERS) {
      const isFree = (current[name] || EMPTY[name]) === EMPTY[name];
      if (isFree && asked.has(name)) setProps(FILTERS[name], { value: asked.get(name) });
    }
    if (asked.has("archived")) setProps("fleet-archived", { value: ["archived"] });
  }

  function setFilters(asked) {
    for (const name in FILTERS) setProps(FILTERS[name], { value: asked.get(name) || EMPTY[name] });
    setProps("fleet-archived", { value: asked.has("archived") ? ["archived"] : [] });
  }

  function opened(api, asked) {
    shownFor = askedOf(current);
    apply(api, asked);
    fitColumns(api);
    for (const event of ["sortChanged", "filterChanged", "columnMoved", "columnVisible"]) api.addEventListener(event, remember);
    for (const event of ["sortChanged", "filterChanged"]) api.addEventListener(event, () => beginLoading(api));
    api.addEventListener("filterChanged", ({ source }) => source === "columnFilter" && sayLeftOut(""));
    api.addEventListener("modelUpdated", appendPushed);
    window.rlvitals.curves.watch(api);
    window.rlvitals.choice.show();
  }

  const sortsOf = (api) =>
    api.getColumnState().filter((column) => column.sort).sort((one, other) => one.sortIndex - other.sortIndex);
  const shownColumns = (api) => api.getColumnState().filter((column) => !column.hide && column.colId !== CHOICE).map((column) => column.colId);

  function apply(api, asked) {
    isOpening = true;
    api.rlvitalsColumns ||= shownColumns(api).join(); // a view may be chosen before the table is opened
    const narrow = window.innerWidth < 700 ? "run,alerts,phase,sparkline" : api.rlvitalsColumns;
    const shown = (asked.get("columns") || narrow).split(",");
    const sorts = new Map((asked.get("sort") || "").split(",").map((sort) => sort.split(":")));
    const order = [...sorts.keys()];
    const all = api.getColumnState().map((column) => column.colId).filter((name) => name !== CHOICE);
    const ordered = [...shown.filter((name) => all.includes(name)), ...all.filter((name) => !shown.includes(name))];
    const state = ordered.map((colId) => ({
      colId,
      hide: colId !== "run" && !shown.includes(colId),
      sort: sorts.get(colId) || null,
      sortIndex: sorts.has(colId) ? order.indexOf(colId) : null,
    }));
    api.applyColumnState({ state: [{ colId: CHOICE }, ...state], applyOrder: true });
    api.setFilterModel(asked.has("filter") ? JSON.parse(asked.get("filter")) : null);
    setProps("fleet-columns", { value: shownColumns(api) });
    isOpening = false;
    remember();
  }

  /* The width of a column depends on the font size (assets/style.css); the names take the rest of a wide table. */
  function fitColumns(api) {
    const factor = window.innerWidth >= 2800 || document.documentElement.dataset.wall ? 1.5 : 1;
    const widthOf = (column) => factor * column.getColDef().width;
    const shown = api.getAllDisplayedColumns().reduce((sum, column) => sum + widthOf(column), 0);
    const left = document.querySelector(`#${GRID} .ag-root`).clientWidth - shown;
    const names = { key: NAMES, newWidth: widthOf(api.getColumn(NAMES)) };
    if (window.innerWidth < 700) names.newWidth = PHONE_NAMES;
    else names.newWidth += Math.min(Math.max(left, 0), MOST_FOR_NAMES * factor);
    const others = api.getColumns().filter((column) => column.getColId() !== NAMES && column.getColDef().flex === undefined);
    api.setColumnWidths([names, ...others.map((column) => ({ key: column, newWidth: widthOf(column) }))]);
  }

  function chooseFleetColumns(chosen) {
    const api = grid();
    if (!api || isOpening) return;
    const names = api.getColumnState().map((column) => column.colId).filter((name) => !["run", CHOICE].includes(name));
    api.setColumnsVisible(names.filter((name) => !chosen.includes(name)), false);
    api.setColumnsVisible(names.filter((name) => chosen.includes(name)), true);
  }

  /* Saved views are kept by the collector (POST /api/v1/views); the browser asks for the name and opens them. */
  function saveFleetView(_clicks, views) {
    const name = (window.prompt("Name of the view", view ? view.name : "") || "").trim();
    const held = views.find((each) => each.name === name && each.is_own); // the one that the collector would replace
    if (!name || (held && !window.confirm(`Replace the view "${name}" of ${held.saved_by}?`))) return window.dash_clientside.no_update;
    return { name, query: query(), seen: held ? held.saved_at : null };
  }

  /* A view belongs to everybody, and it cannot be brought back. */
  function forgetFleetView() {
    const isMeant = view && window.confirm(`Delete the view "${view.name}" for everybody? This cannot be undone.`);
    return isMeant ? { id: view.id, at: Date.now() } : window.dash_clientside.no_update;
  }

  function openFleetView(chosen, views) {
    const api = grid();
    view = views.find((each) => each.id === chosen) || null;
    if (view && api && view.query !== query()) {
      const asked = readAsked(view.query);
      setFilters(asked);
      apply(api, asked);
    } else if (api) {
      sayLeftOut("");
      remember();
    }
    return !chosen;
  }

  function exportFleet() {
    const api = grid();
    if (!api) return window.dash_clientside.no_update;
    const sortModel = sortsOf(api).map(({ colId, sort }) => ({ colId, sort }));
    const shown = shownColumns(api).filter((name) => name !== "sparkline");
    return { columns: shown, sortModel, filterModel: api.getFilterModel(), at: Date.now() };
  }

  function toggleWall() {
    const root = document.documentElement;
    if (root.dataset.wall) delete root.dataset.wall;
    else root.dataset.wall = "on";
    const api = grid();
    if (!api) return;
    api.setGridOption("rowHeight", rowHeight());
    api.setColumnsVisible([CHOICE], !root.dataset.wall);
    fitColumns(api);
  }

  document.addEventListener("keydown", (event) => event.key === "Escape" && document.documentElement.dataset.wall && toggleWall());

  /* Gives true if the server must send the rows again, because the phase is new or the run went back, which undoes a part
     of its curve. A run that is not in view waits. */
  function pushFleetStep(step) {
    pushed.delete(step.run_id); // so that the order is that of arrival
    pushed.set(step.run_id, { ...step, at: Date.now() });
    if (pushed.size > KEPT_STEPS) pushed.delete(pushed.keys().next().value);
    return appendStep(step);
  }

  /* Rows that were read before a step was pushed may arrive after it. */
  function appendPushed() {
    for (const step of pushed.values()) {
      const row = Date.now() - step.at < LONGEST_READ_MS && grid() && grid().getRowNode(step.run_id);
      if (row && row.data && row.data.step < step.step) appendStep(step);
    }
  }

  function appendStep(step) {
    const api = grid();
    const row = api && api.getRowNode(step.run_id);
    if (!row || !row.data) return !api;
    // A collector of another version may not send when the run was last heard.
    const data = { ...row.data, step: step.step, last_seen: step.last_seen ?? row.data.last_seen };
    const isNumber = (name) => typeof step.signals[name] === "number";
    const appended = (values, name) => [...values, isNumber(name) ? step.signals[name] : null].slice(-SPARKLINE_POINTS);
    if (isNumber(data.signal)) data.reward = step.signals[data.signal];
    const isNew = step.step !== row.data.step; // the row may have been read with the step before the step arrived
    if (isNew && data.signal in step.signals) data.sparkline = appended(data.sparkline, data.signal);
    window.rlvitals.curves.append(step, appended);
    const wentBack = step.step < row.data.step;
    row.updateData(data);
    return wentBack || data.phase !== step.phase;
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { pushFleetStep, toggleFleetGroup });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, {
    arrangeFleet, chooseFleetColumns, endFleetLoading, exportFleet, forgetFleetView, openFleetView, readFleetAgain, saveFleetView, toggleWall,
  });
})();

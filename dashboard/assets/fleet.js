/* The fleet page in the browser: filters, groups, the view in the address, and steps pushed into rows. */
(function () {
  "use strict";

  const GRID = "fleet-grid";
  const SPARKLINE_POINTS = 40;
  const REMEMBERED = "rlvitals-fleet";
  const FILTERS = { run: "fleet-text", project: "fleet-project", state: "fleet-status", group: "fleet-group", curve: "fleet-curve" };
  const EMPTY = { run: "", project: null, state: "all", group: null, curve: "" };
  const collapsed = new Set();
  let openedFor = null; // the description of the table that is drawn
  let arranged = []; // the rows of the table
  let current = {}; // what is set above the table
  let isOpening = false; // the table does not have its columns yet
  let view = null; // the saved view that was opened last
  let isViewChanged = false;

  const grid = () => window.dash_ag_grid && document.getElementById(GRID) && window.dash_ag_grid.getApi(GRID);
  const setProps = (id, properties) => window.dash_clientside.set_props(id, properties);

  const groupOf = (row, by) => (by === "tag" ? row.tags[0] || "no tag" : row[by] || `no ${by}`);

  /* Gives the table the rows that match, with a row that heads each group; returns whether there are any. */
  function arrangeFleet(rows, run, project, state, group, archived, curve, _collapsed, table, library, views) {
    current = { run, project, state, group, curve, archived: archived.length > 0 };
    window.rlvitals.curves.choose(curve);
    if (rows && rows.length && openedFor !== table) openFleet(table, library, views);
    const words = (run || "").toLowerCase().split(/\s+/).filter(Boolean);
    const shown = (rows || []).filter(
      (row) =>
        (current.archived || !row.archived) &&
        (!project || row.project === project) &&
        (!state || state === "all" || row.state === state) &&
        words.every((word) => row.text.includes(word)),
    );
    arranged = (group ? grouped(shown, group) : shown).map((row) => (row.is_head ? row : window.rlvitals.curves.withCurve(row)));
    window.rlvitals.curves.lookSoon();
    if (grid()) setProps(GRID, { rowData: arranged });
    remember();
    return shown.length > 0 || !rows || !rows.length;
  }

  function grouped(rows, by) {
    const heads = new Map();
    const members = [];
    for (const row of rows) {
      const name = groupOf(row, by);
      if (!heads.has(name)) {
        heads.set(name, { id: `group ${name}`, group: name, is_head: true, place: heads.size, is_open: !collapsed.has(name), count: 0, counts: {} });
      }
      const head = heads.get(name);
      head.count += 1;
      for (const severity in row.counts) head.counts[severity] = (head.counts[severity] || 0) + row.counts[severity];
      if (head.is_open) members.push({ ...row, group: name });
    }
    return [...heads.values(), ...members];
  }

  function toggleFleetGroup(name) {
    if (!collapsed.delete(name)) collapsed.add(name);
    setProps("fleet-collapsed", { data: [...collapsed] });
  }

  window.dashAgGridFunctions = Object.assign(window.dashAgGridFunctions || {}, {
    isFleetGroup: ({ rowNode }) => Boolean(rowNode.data && rowNode.data.is_head),
    fleetRowHeight: ({ data }) => (data.is_head ? 40 : document.documentElement.dataset.wall ? 80 : 54),
    /* Whatever the order of runs, each group stays together behind its head; groups keep the order of urgency. */
    groupFleetRows: ({ nodes }) => {
      const heads = nodes.filter((node) => node.data.is_head).sort((one, other) => one.data.place - other.data.place);
      if (!heads.length) return;
      const members = new Map(heads.map((head) => [head.data.group, [head]]));
      for (const node of nodes) if (!node.data.is_head) members.get(node.data.group).push(node);
      nodes.splice(0, nodes.length, ...[...members.values()].flat());
    },
  });

  /* The address holds what is set, so that it can be sent to somebody; this browser remembers it as well. */
  function query() {
    const asked = new URLSearchParams();
    for (const name in FILTERS) if (current[name] && current[name] !== EMPTY[name]) asked.set(name, current[name]);
    if (current.archived) asked.set("archived", "1");
    const api = grid();
    if (api && !isOpening) {
      const columns = api.getColumnState();
      const sorted = columns.filter((column) => column.sort).sort((one, other) => one.sortIndex - other.sortIndex);
      if (sorted.length) asked.set("sort", sorted.map((column) => `${column.colId}:${column.sort}`).join());
      const shown = columns.filter((column) => !column.hide).map((column) => column.colId).join();
      if (shown !== api.rlvitalsColumns) asked.set("columns", shown);
      const filters = api.getFilterModel();
      if (Object.keys(filters).length) asked.set("filter", JSON.stringify(filters));
    }
    return asked.toString();
  }

  function remember() {
    if (isOpening || window.location.pathname !== "/" || !grid()) return;
    const asked = query();
    localStorage.setItem(REMEMBERED, asked);
    const isView = view && view.query === asked;
    const address = isView ? `view=${view.id}` : asked;
    noteChange(Boolean(view) && !isView);
    window.history.replaceState(window.history.state, "", address ? `/?${address}` : "/");
  }

  /* The menu goes on naming the view, so a change of it is stated beside it. */
  function noteChange(isChanged) {
    if (isChanged !== isViewChanged) setProps("fleet-view-state", { children: isChanged ? "changed, not saved" : "" });
    isViewChanged = isChanged;
  }

  /* Loads the table's library, sets what the address says (or what this browser remembers), and draws the table. */
  async function openFleet(table, library, views) {
    isOpening = true;
    openedFor = table;
    const given = new URLSearchParams(window.location.search || localStorage.getItem(REMEMBERED) || "");
    view = views.find((each) => each.id === given.get("view")) || null;
    const asked = view ? new URLSearchParams(view.query) : given;
    if (view) setProps("fleet-view", { value: view.id });
    restoreFilters(asked);
    await window.rlvitals.load(library);
    if (!document.getElementById("fleet-table")) return; // the reader has gone to another page meanwhile
    setProps("fleet-table", { children: table });
    opened(await window.dash_ag_grid.getApiAsync(GRID), asked);
  }

  /* What the reader has set before the table was there stays. */
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
    setProps(GRID, { rowData: arranged });
    api.rlvitalsColumns = shownColumns(api).join();
    apply(api, asked);
    for (const event of ["sortChanged", "filterChanged", "columnMoved", "columnVisible"]) api.addEventListener(event, remember);
    window.rlvitals.curves.watch(api);
  }

  const shownColumns = (api) => api.getColumnState().filter((column) => !column.hide).map((column) => column.colId);

  function apply(api, asked) {
    isOpening = true;
    const narrow = window.innerWidth < 700 ? "run,alerts,phase,sparkline" : api.rlvitalsColumns;
    const columns = (asked.get("columns") || narrow).split(",");
    const sorts = new Map((asked.get("sort") || "").split(",").map((sort) => sort.split(":")));
    const order = [...sorts.keys()];
    const all = api.getColumnState().map((column) => column.colId);
    const ordered = [...columns.filter((name) => all.includes(name)), ...all.filter((name) => !columns.includes(name))];
    const state = ordered.map((colId) => ({
      colId,
      hide: !columns.includes(colId),
      sort: sorts.get(colId) || null,
      sortIndex: sorts.has(colId) ? order.indexOf(colId) : null,
    }));
    api.applyColumnState({ state, applyOrder: true });
    if (window.innerWidth < 700) api.setColumnWidths([{ key: "run", newWidth: 180 }]);
    if (window.innerWidth >= 2800) widen(api);
    api.setFilterModel(filterOf(asked));
    setProps("fleet-columns", { value: shownColumns(api) });
    isOpening = false;
    remember();
  }

  /* As the type on a screen that is as wide (assets/style.css), and then some. */
  function widen(api) {
    const columns = api.getAllDisplayedColumns().filter((column) => column.getColDef().flex === undefined);
    api.setColumnWidths(columns.map((column) => ({ key: column, newWidth: 1.5 * column.getColDef().width })));
  }

  function filterOf(asked) {
    try {
      return JSON.parse(asked.get("filter"));
    } catch {
      return null;
    }
  }

  function chooseFleetColumns(chosen) {
    const api = grid();
    if (!api || isOpening) return;
    const columns = api.getColumnState().map((column) => column.colId).filter((name) => name !== "run");
    api.setColumnsVisible(columns.filter((name) => !chosen.includes(name)), false);
    api.setColumnsVisible(columns.filter((name) => chosen.includes(name)), true);
  }

  /* Saved views are kept by the collector (POST /api/v1/views); the browser asks for the name and opens them. */
  function saveFleetView(_clicks, views) {
    const name = (window.prompt("Name of the view", view ? view.name : "") || "").trim();
    const held = views.find((each) => each.name === name);
    if (!name || (held && !window.confirm(`Replace the view "${name}" of ${held.saved_by}?`))) return window.dash_clientside.no_update;
    return { name, query: query() };
  }

  function openFleetView(chosen, views) {
    const api = grid();
    view = views.find((each) => each.id === chosen) || null;
    if (view && api && view.query !== query()) {
      const asked = new URLSearchParams(view.query);
      setFilters(asked);
      apply(api, asked);
    } else if (api) remember();
    return !chosen;
  }

  function exportFleet() {
    const api = grid();
    if (!api) return;
    const columns = shownColumns(api).filter((name) => name !== "sparkline");
    api.exportDataAsCsv({ fileName: "runs.csv", columnKeys: columns, shouldRowBeSkipped: ({ node }) => node.data.is_head });
  }

  function toggleWall() {
    const root = document.documentElement;
    if (root.dataset.wall) delete root.dataset.wall;
    else root.dataset.wall = "on";
    const api = grid();
    if (api) api.resetRowHeights();
  }

  document.addEventListener("keydown", (event) => event.key === "Escape" && document.documentElement.dataset.wall && toggleWall());

  /* Gives true if the server must send the rows again: an unknown run, or a new phase. */
  function pushFleetStep(step) {
    const api = grid();
    const row = api && api.getRowNode(step.run_id);
    if (!row) return !api || !collapsed.size;
    const data = { ...row.data, step: step.step, last_seen: Date.now() / 1000 };
    const isNumber = (name) => typeof step.signals[name] === "number";
    if (isNumber(data.signal)) data.reward = step.signals[data.signal];
    const drawn = data.curve || data.signal;
    if (drawn in step.signals) {
      data.sparkline = [...data.sparkline, isNumber(drawn) ? step.signals[drawn] : null].slice(-SPARKLINE_POINTS);
      window.rlvitals.curves.keep(data.id, data.sparkline);
    }
    row.updateData(data);
    return data.phase !== step.phase;
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { pushFleetStep, toggleFleetGroup });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, {
    arrangeFleet, chooseFleetColumns, exportFleet, openFleetView, saveFleetView, toggleWall,
  });
})();

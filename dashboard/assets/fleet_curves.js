/* The small curves of the fleet's table, of a signal that the reader chooses: those of the rows in view are read from the
   server, the others when they come into view. */
(function () {
  "use strict";

  const SOON_MS = 80; // rows that come into view together are one request
  const MAX_RUNS = 60; // of one request, as in dashboard/pages/fleet/curves.py
  const HEADING = "Newest rewards";

  let signal = ""; // empty: the rewards, which the rows hold
  let curves = new Map(); // id of a run -> the newest values of the signal, and the step of the last one
  const pushed = new Map(); // id of a run -> the newest step that has arrived with the signal since the curve was read
  const asked = new Set(); // ids of the runs whose values are read, or were
  let timer = null;

  const grid = () => window.dash_ag_grid && document.getElementById("fleet-grid") && window.dash_ag_grid.getApi("fleet-grid");

  /* Gives the curve of a row; empty until that of a chosen signal is read. */
  const of = (row) => (signal ? { signal, values: curves.get(row.id)?.values || [] } : { signal: row.signal, values: row.sparkline });

  function choose(next) {
    if ((next || "") === signal) return;
    signal = next || "";
    curves = new Map();
    pushed.clear();
    draw();
    readAgain();
  }

  /* Steps were missed: the curves are read anew, and stay as they are until then. */
  function readAgain() {
    asked.clear();
    lookSoon();
  }

  function look() {
    timer = null;
    const api = grid();
    if (!api) return;
    showHeading(api);
    if (!signal) return;
    const runs = [];
    for (let at = api.getFirstDisplayedRowIndex(); at <= api.getLastDisplayedRowIndex() && runs.length < MAX_RUNS; at += 1) {
      const row = api.getDisplayedRowAtIndex(at);
      if (row && row.data && !row.data.is_head && !asked.has(row.data.id)) runs.push(row.data.id);
    }
    if (!runs.length) return;
    runs.forEach((id) => asked.add(id));
    window.dash_clientside.set_props("fleet-curves-wanted", { data: { signal, runs, at: Date.now() } });
  }

  function showHeading(api) {
    const column = api.getColumn("sparkline").getColDef();
    if (column.headerName === (signal || HEADING)) return;
    column.headerName = signal || HEADING;
    api.refreshHeader();
  }

  function lookSoon() {
    timer ??= setTimeout(look, SOON_MS);
  }

  /* Called with what the server has read. */
  function fleetCurvesRead(read) {
    const api = grid();
    if (!api || !read || read.signal !== signal) return window.dash_clientside.no_update;
    for (const [id, curve] of Object.entries(read.curves)) {
      if (curve === null) asked.delete(id); // it could not be read, and is asked for when the rows are looked at again
      else {
        curves.set(id, curve);
        if (pushed.get(id) > curve.step) readOneAgain(id); // it was read before that step
      }
      pushed.delete(id);
    }
    draw();
    return window.dash_clientside.no_update;
  }

  function watch(api) {
    for (const event of ["viewportChanged", "modelUpdated"]) api.addEventListener(event, lookSoon);
    lookSoon();
  }

  /* A step may arrive twice, or after it was read. Behind an older step the run went back, or newer values were read
     before this step arrived: the curve is read again. */
  function append(step, appended) {
    if (!(signal in step.signals)) return;
    pushed.set(step.run_id, step.step);
    const curve = curves.get(step.run_id);
    if (!curve || step.step === curve.step) return;
    if (step.step < curve.step) readOneAgain(step.run_id);
    else {
      curves.set(step.run_id, { values: appended(curve.values, signal), step: step.step });
      draw([grid().getRowNode(step.run_id)]);
    }
  }

  function readOneAgain(id) {
    asked.delete(id);
    lookSoon();
  }

  function draw(rowNodes) {
    if (grid()) grid().refreshCells({ rowNodes, columns: ["sparkline"], force: true });
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { curves: { append, choose, of, readAgain, watch } });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { fleetCurvesRead });
})();

/* The panels of a run's workspace: asks the server for those in view, shares the zoom, and appends pushed steps. */
(function () {
  "use strict";

  const SOON_MS = 60; // panels that come into view together are one request
  const AGAIN_MS = 2000; // a panel of which a new value lies outside is asked for again at most this often
  const MAX_PANELS = 24; // of one request, as in dashboard/pages/run/workspace.py
  const CONFIG = { displayModeBar: false, doubleClick: "autosize" }; // codespell:ignore

  const inView = new Set(); // elements
  const outgrown = new Set(); // those of them of which a new value lies outside their axis, that leaves out outliers
  const drawnIn = new WeakMap(); // element -> the version of the settings that it is drawn with
  let settings = {};
  let version = 0;
  let timer = null;
  let againTimer = null;
  let isAsking = false;
  let zoom = null;
  let vitals = null; // smoothing and zoom of the vital signs, as they were asked for
  let searched = "";
  let known = new Set(); // signals that have a panel, or for which one was asked for

  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) inView.add(entry.target);
        else inView.delete(entry.target);
      }
      askSoon();
      window.rlvitals.drawSteps(); // that came while a panel was out of view
    },
    { rootMargin: "240px" },
  );

  function askSoon() {
    if (!timer) timer = setTimeout(ask, SOON_MS);
  }

  function ask() {
    timer = null;
    if (isAsking) return;
    const stale = [...inView].filter((panel) => panel.isConnected && drawnIn.get(panel) !== version).slice(0, MAX_PANELS);
    for (const panel of inView) if (!panel.isConnected) inView.delete(panel);
    if (!stale.length) return;
    isAsking = true;
    stale.forEach((panel) => drawnIn.set(panel, version));
    const signals = stale.map((panel) => panel.dataset.panel);
    window.dash_clientside.set_props("workspace-wanted", { data: { ...settings, signals, at: Date.now() } });
  }

  /* Called with the panels that the server has drawn. It draws one panel a frame, so that the page stays responsive. */
  function panelsDrawn(drawn) {
    isAsking = false;
    askSoon();
    if (window.Plotly) drawNext(Object.entries(drawn || {}), version);
    else setTimeout(() => panelsDrawn(drawn), SOON_MS);
    return window.dash_clientside.no_update;
  }

  function drawNext(panels, asked) {
    const [next, ...others] = panels;
    if (asked !== version) return; // other settings hold by now, and the server is asked again
    if (!next) return window.rlvitals.drawSteps(); // that came since the server read the values
    const panel = [...inView].find((held) => held.dataset.panel === next[0]);
    if (panel) drawPanel(panel, next[1]);
    else document.querySelectorAll("[data-panel]").forEach((held) => held.dataset.panel === next[0] && drawnIn.delete(held));
    requestAnimationFrame(() => drawNext(others, asked));
  }

  function drawPanel(panel, { problem, unread, newest, figure }) {
    const body = panel.querySelector(".panel-body");
    if (unread && graphOf(panel)) return; // the bar, or the head of the page, says why there is nothing newer
    if (problem || unread) {
      if (graphOf(panel)) window.Plotly.purge(graphOf(panel));
      body.innerHTML = `<p class="panel-error"></p>`;
      body.firstChild.textContent = problem || unread;
      return;
    }
    let graph = body.querySelector(".panel-chart");
    if (!graph) {
      body.innerHTML = `<span class="panel-value"><span class="number"></span></span><div class="panel-chart"></div>`;
      graph = body.lastChild;
    }
    body.querySelector(".number").dataset.number = newest;
    if (zoom) figure.layout.xaxis = { ...figure.layout.xaxis, autorange: false, range: placesOf(zoom) };
    const isFirst = !graph._fullLayout;
    window.Plotly.react(graph, figure.data, figure.layout, CONFIG);
    if (isFirst) watch(graph);
  }

  function watch(graph) {
    graph.on("plotly_relayout", (change) => shareZoom(change));
    graph.on("plotly_hover", (event) => shareCursor(graph, event.xvals[0]));
    graph.on("plotly_unhover", () => shareCursor(graph, null));
    window.rlvitals.offerResponses(graph, () => isBySteps(settings.axis));
    sizes.observe(graph);
    charts.add(graph);
    graph.rlvitalsPanel = true;
  }

  /* Frees the charts of removed panels: Plotly keeps the data of a chart until it is asked to free it. */
  function forgetOld() {
    for (const graph of charts) {
      if (graph.isConnected) continue;
      charts.delete(graph);
      sizes.unobserve(graph);
      window.Plotly.purge(graph);
    }
  }

  const charts = new Set();
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const drawn = target._fullLayout;
      const isOther = drawn && (drawn.width !== Math.round(contentRect.width) || drawn.height !== Math.round(contentRect.height));
      if (isOther && contentRect.width) window.Plotly.Plots.resize(target);
    }
  });

  function graphOf(panel) {
    const graph = panel.querySelector(".js-plotly-plot");
    return graph && graph._fullLayout ? graph : null;
  }

  /* One cursor over all panels in view: each shows its values at the place to which one of them is pointed. */
  function shareCursor(from, place) {
    for (const panel of inView) {
      const graph = graphOf(panel);
      if (!graph || graph === from) continue;
      if (place === null) window.Plotly.Fx.unhover(graph);
      else window.Plotly.Fx.hover(graph, { xval: place });
    }
  }

  /* Steps, or Unix seconds, as places on the axis of a panel. */
  function placesOf(range) {
    if (settings.axis === "log") return range.map((end) => Math.log10(Math.max(end, 1)));
    return settings.axis === "time" ? range.map((end) => 1000 * end) : range;
  }

  const isBySteps = (axis) => axis === "step" || axis === "log";

  function endOf(place, index) {
    if (settings.axis === "log") return 10 ** place;
    return settings.axis === "time" ? secondsOf(String(place), index === 1) : place;
  }

  /* Plotly states a time as the clock of this time zone; a day alone is its midnight, which `Date` would take as that of UTC.
     The clock shows the hour in which summer time ends twice: an interval begins in the first one and ends in the second. */
  function secondsOf(place, isEnd) {
    const [day, clock = "00:00"] = place.split(" ");
    const first = new Date(`${day}T${clock}`);
    const second = new Date(first.getTime() + 3600000);
    return (isEnd && String(second).slice(0, 24) === String(first).slice(0, 24) ? second : first).getTime() / 1000;
  }

  function shareZoom(change) {
    if ("xaxis.range[0]" in change) {
      zoomTo([change["xaxis.range[0]"], change["xaxis.range[1]"]].map(endOf));
    } else if (change["xaxis.autorange"]) zoomTo(null);
  }

  /* Whether the zoom of the address was applied to the page that is open; the figure above takes it once it is drawn. */
  function isZoomRead() {
    const workspace = document.getElementById("workspace");
    const isRead = !workspace || workspace.rlvitalsZoom;
    if (workspace) workspace.rlvitalsZoom = true;
    if (!isRead) setTimeout(() => zoomVitals(workspace), SOON_MS);
    return isRead;
  }

  function zoomVitals(workspace) {
    const vitals = window.rlvitals.figure.find();
    if (!zoom || !isBySteps(settings.axis) || !workspace.isConnected) return;
    if (vitals && vitals.layout) window.Plotly.relayout(vitals, { "xaxis.range": zoom });
    else setTimeout(() => zoomVitals(workspace), SOON_MS);
  }

  /* Zooms every panel, and the vital signs if they share the axis: at once what is drawn, one panel a frame, and then with
     the values that the server holds of that interval. */
  function zoomTo(dragged) {
    const range = dragged && isBySteps(settings.axis) ? withAStep(dragged) : dragged;
    if (JSON.stringify(range) === JSON.stringify(zoom)) return; // the event comes from a figure that this function has just zoomed
    zoom = range;
    const vitals = window.rlvitals.figure.find();
    const isZoomed = vitals && JSON.stringify(vitals.rlvitalsZoom ?? null) === JSON.stringify(range);
    if (vitals && !isZoomed && isBySteps(settings.axis)) {
      window.Plotly.relayout(vitals, range ? { "xaxis.range": range } : { "xaxis.autorange": true });
    }
    zoomNext([...inView], range);
    configure(settings);
    viewVitals(false);
    remember();
  }

  /* An interval of steps, or the whole step in which it lies, since there is nothing to see between two steps. */
  function withAStep([from, to]) {
    return to - from >= 1 ? [from, to] : [Math.floor(from), Math.floor(from) + 1];
  }

  /* Applies a zoom of the vital signs, whose axis is steps; panels with another axis keep their zoom. */
  function zoomToSteps(range) {
    if (isBySteps(settings.axis)) zoomTo(range);
  }

  function zoomNext(panels, range) {
    const [panel, ...others] = panels;
    if (!panel || range !== zoom) return;
    const graph = graphOf(panel);
    if (graph) window.Plotly.relayout(graph, range ? { "xaxis.range": placesOf(range) } : { "xaxis.autorange": true });
    requestAnimationFrame(() => zoomNext(others, range));
  }

  function show(text) {
    let wanted = null;
    try {
      wanted = new RegExp(text || "", "i");
    } catch {
      wanted = { test: (name) => name.toLowerCase().includes(text.toLowerCase()) };
    }
    document.querySelectorAll("[data-panel]").forEach((panel) => (panel.hidden = !wanted.test(panel.dataset.panel)));
    document.querySelectorAll("[data-panel-group]").forEach((group) => {
      group.hidden = !group.querySelector("[data-panel]:not([hidden])");
    });
    const note = document.getElementById("workspace-none-found");
    if (note) note.hidden = !text || Boolean(document.querySelector("[data-panel]:not([hidden])"));
  }

  function remember() {
    const usual = { signals: "", smoothing: 0, x: "step", y: "linear", outliers: "shown", zoom: null };
    const unit = settings.axis === "time" ? 1000 : 1; // of a second, as Plotly states a time
    const interval = zoom && zoom.map((end) => Math.round(unit * end) / unit).join();
    const { smoothing, axis, scale, outliers } = settings;
    window.rlvitals.rememberQuery(usual, [searched, smoothing, axis, scale, outliers, interval]);
  }

  /* The places of the panels are a text of HTML, written by the server. */
  function placePanels() {
    const groups = document.querySelector(".panel-groups");
    if (!groups || groups.rlvitalsPlaces === groups.dataset.places) return;
    groups.rlvitalsPlaces = groups.dataset.places;
    groups.innerHTML = groups.dataset.places;
    known = new Set([...groups.querySelectorAll("[data-panel]")].map((panel) => panel.dataset.panel));
    forgetOld();
    again(); // an answer to the last page does not come
  }

  function configure({ smoothing, axis, scale, outliers }) {
    const next = { smoothing, axis, scale, outliers, zoom };
    if (JSON.stringify(next) === JSON.stringify(settings)) return;
    settings = next;
    again();
  }

  /* Asks for the vital signs with this smoothing and zoom; a page that was just drawn has them. */
  function viewVitals(isNew) {
    const next = { smoothing: settings.smoothing, zoom: isBySteps(settings.axis) ? zoom : null };
    if (JSON.stringify(next) === JSON.stringify(vitals)) return;
    vitals = next;
    if (!isNew) window.dash_clientside.set_props("run-view", { data: next });
  }

  /* Draws the figure of the vital signs for the requested view, unless another view has been requested since. */
  function vitalsViewed(drawn) {
    if (drawn && JSON.stringify(drawn.view) === JSON.stringify(vitals)) window.rlvitals.figure.redraw(drawn);
    return window.dash_clientside.no_update;
  }

  function configurePanels(search, smoothing, axis, scale, outliers, asked) {
    placePanels();
    const isNew = !isZoomRead();
    const isOther = !isNew && settings.axis && axis !== settings.axis && !(isBySteps(axis) && isBySteps(settings.axis));
    if (isOther) zoomTo(null); // steps are no times
    if (isNew) zoom = asked;
    configure({ smoothing, axis, scale, outliers });
    if (isOther) zoomToSteps(window.rlvitals.figure.find()?.rlvitalsZoom ?? null);
    viewVitals(isNew);
    document.querySelectorAll("[data-panel]").forEach((panel) => observer.observe(panel));
    window.rlvitals.showPanelChoices();
    show(search);
    searched = search;
    remember();
    return "";
  }

  /* Everything is drawn anew: other settings, a new phase or alert, or a connection that was lost. */
  function again() {
    version += 1;
    isAsking = false;
    askSoon();
  }

  /* Whether a pushed step has a signal without a panel; the server is asked once for each. */
  function lacks(step) {
    const names = Object.keys(step.signals).filter((name) => !known.has(name));
    names.forEach((name) => known.add(name));
    return names.length > 0;
  }

  /* The charts of the panels in view that the server is not asked for. */
  function drawnGraphs() {
    return [...inView].filter((panel) => drawnIn.get(panel) === version).map(graphOf).filter(Boolean);
  }

  /* Appends pushed steps to the panels in view, and gives the points of the longest line. */
  function extendPanels(steps) {
    let longest = 0;
    for (const graph of drawnGraphs()) {
      extend(graph, steps);
      longest = Math.max(longest, graph.data[0].x.length);
    }
    return longest;
  }

  /* The server draws a panel anew of which a value lies outside: it computes which values are outliers, and their number. */
  function askForOutgrown(graph) {
    outgrown.add(graph.closest("[data-panel]"));
    againTimer ??= setTimeout(() => {
      againTimer = null;
      outgrown.forEach((panel) => drawnIn.delete(panel));
      outgrown.clear();
      askSoon();
    }, AGAIN_MS);
  }

  /* Whether the axis that leaves out outliers leaves out this value, at a place that is in view. */
  function isLeftOut(graph, place, value) {
    const { autorange, range, type } = graph._fullLayout.yaxis;
    if (settings.outliers !== "hidden" || autorange || (zoom && place > zoom[1] * (settings.axis === "time" ? 1000 : 1))) return false;
    const height = type === "log" ? Math.log10(value) : value;
    return height < range[0] || height > range[1];
  }

  function extend(graph, steps) {
    const line = graph.data[0];
    const { signal } = line.meta;
    const averageAt = graph.data.findIndex((trace) => trace.meta.role === "average");
    const average = graph.data[averageAt];
    const x = [];
    const y = [];
    const smooth = { x: [], y: [] };
    const marks = [];
    const { extendedMarks, lastDrawn, longerLine, put } = window.rlvitals.figure;
    let height = lastDrawn(line.y);
    const number = panelNumber(graph);
    let last = line.x[line.x.length - 1];
    for (const step of steps) {
      if (!(signal in step.signals) || step.step <= line.meta.last_step) continue;
      const place = placeOf(step, line.meta, last);
      line.meta.last_step = step.step;
      if (place === null) continue;
      if (number) number.dataset.number = step.signals[signal] ?? number.dataset.number;
      const value = step.signals[signal];
      const isDrawn = typeof value === "number" && (settings.scale !== "log" || value > 0);
      if (average && step.step > average.meta.last_step) {
        average.meta.last_step = step.step;
        smooth.x.push(place);
        smooth.y.push(typeof value === "number" ? next(average.meta, place, value) : null);
      }
      if (isDrawn && isLeftOut(graph, place, value)) askForOutgrown(graph);
      if (isDrawn) height = value;
      else marks.push({ step: place, value, height: height ?? 1 });
      x.push(place);
      y.push(isDrawn ? value : null);
      last = place;
    }
    if (!x.length) return;
    const columns = longerLine(line, x, y);
    const changed = new Map([[0, columns]]);
    if (marks.length) changed.set(1, extendedMarks(graph.data[1], marks));
    if (average) changed.set(averageAt, { x: average.x.concat(smooth.x), y: average.y.concat(smooth.y) });
    put(graph, changed, {});
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-export]");
    if (button) window.dash_clientside.set_props("workspace-exported", { data: { signal: button.dataset.export, at: Date.now() } });
  });

  /* Returns the position of a pushed step on the axis; null on the axis by tokens if the step has no number of tokens. */
  function placeOf(step, meta, last) {
    if (settings.axis === "time") return 1000 * (step.time ?? Date.now() / 1000); // an older collector sends none
    if (!meta.tokens) return step.step;
    const tokens = step.signals[meta.tokens];
    if (typeof tokens !== "number") return null;
    return meta.is_total ? tokens : last + tokens;
  }

  function panelNumber(graph) {
    return graph.closest("[data-panel]").querySelector("[data-number]");
  }

  /* The moving average one value further, as in dashboard/figures/curves/smoothing.py. */
  function next(state, place, value) {
    const decay = state.smoothing ** (Math.max(place - state.last, 0) / state.unit);
    state.total = state.total * decay + value;
    state.weight = state.weight * decay + 1;
    state.last = place;
    if (!Number.isFinite(state.total)) Object.assign(state, { total: value, weight: 1 });
    return state.total / state.weight;
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { panels: { again, drawn: drawnGraphs, extend: extendPanels, lacks, nextAverage: next, zoomToSteps } });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { configurePanels, panelsDrawn, vitalsViewed });
})();

/* The run figure in the browser: appends pushed steps to its traces, lets the current band grow, places band names. */
(function () {
  "use strict";

  const GLYPHS = { NaN: "✕", Infinity: "▲", "-Infinity": "▼" };
  const NAMES = { NaN: "NaN", Infinity: "∞", "-Infinity": "−∞" };
  const LABEL_PIXELS_PER_CHARACTER = 6.4;
  const LABEL_PADDING = 8;
  const FEW_STEPS = 10;
  const PAD = 0.06; // of the span of the values, above and below them
  const DIGIT_DECADES = [7, 100].map((ratio) => Math.log10(ratio) * (1 + 2 * PAD)); // as in dashboard/figures/curves/lines.py
  const DOT = 4; // pixels, as in dashboard/figures/curves/lines.py
  const COLUMNS = ["x", "y", "text", "hovertext", "customdata", "mode", "marker"];

  function figure() {
    const graph = document.querySelector("#run-figure .js-plotly-plot");
    return graph && graph._fullLayout && graph.data ? graph : null;
  }

  function lastStep(graph) {
    let last = -Infinity;
    for (const trace of graph.data) {
      if (trace.meta.role === "line" && trace.x.length) last = Math.max(last, trace.x[trace.x.length - 1]);
    }
    if (last > -Infinity) return last;
    const band = graph.layout.shapes.find((shape) => shape.name === "current-band"); // no vital sign is observed
    return band ? band.x1 : 0;
  }

  function lastDrawn(values) {
    for (let index = values.length - 1; index >= 0; index -= 1) if (values[index] !== null) return values[index];
    return null;
  }

  /* Gives the trace's columns with the steps appended, or null if none of them holds its signal. */
  function extendedLine(trace, steps) {
    const { signal, is_log: isLog, is_sum: isSum } = trace.meta;
    const x = [];
    const y = [];
    const marks = [];
    let sum = isSum ? lastDrawn(trace.y) || 0 : 0;
    let height = lastDrawn(trace.y);
    for (const step of steps) {
      if (!(signal in step.signals) || step.step <= (trace.x[trace.x.length - 1] ?? -Infinity)) continue;
      const value = step.signals[signal];
      const isDrawn = typeof value === "number" && (!isLog || value > 0);
      if (isDrawn) {
        sum += value;
        height = isSum ? sum : value;
      } else marks.push({ step: step.step, value, height: height ?? 1 });
      x.push(step.step);
      y.push(isDrawn ? height : null);
    }
    return x.length ? { ...longerLine(trace, x, y), marks } : null;
  }

  /* A line's columns with points appended, and a dot for each value between two gaps, where the line does not show it. */
  function longerLine(trace, x, y) {
    const columns = { x: trace.x.concat(x), y: trace.y.concat(y) };
    if (trace.mode === "lines+markers" && !Array.isArray(trace.marker.size)) return columns; // every point has a dot
    const isGap = (at) => (columns.y[at] ?? null) === null;
    const size = columns.y.map((value, at) => (!isGap(at) && isGap(at - 1) && isGap(at + 1) ? DOT : 0));
    return { ...columns, mode: size.some(Boolean) ? "lines+markers" : "lines", marker: { ...trace.marker, size } };
  }

  function extendedMarks(trace, marks) {
    return {
      x: trace.x.concat(marks.map((mark) => mark.step)),
      y: trace.y.concat(marks.map((mark) => mark.height)),
      text: trace.text.concat(marks.map((mark) => GLYPHS[mark.value] || "○")),
      hovertext: trace.hovertext.concat(marks.map((mark) => NAMES[mark.value] || String(mark.value))),
      customdata: trace.customdata.concat(marks.map((mark) => mark.value)),
    };
  }

  /* The moving average over the steps after its own last one, which is not a point of its line. */
  function extendedAverage(average, line) {
    const { meta } = average;
    const x = average.x.concat();
    const y = average.y.concat();
    line.x.forEach((step, at) => {
      if (step <= meta.last_step) return;
      meta.last_step = step;
      const mean = line.y[at] === null ? null : window.rlvitals.panels.nextAverage(meta, step, line.y[at]);
      x.push(step);
      y.push(mean > 0 || !meta.is_log ? mean : null);
    });
    return { x, y };
  }

  /* The zoom, or the range from the first step to the last, which Plotly shows after the next draw. */
  function stepsInView(graph, last) {
    const first = graph.layout.xaxis.autorangeoptions.clipmin;
    return graph.rlvitalsZoom || [first, Math.max(last, first + 1)];
  }

  function grownShapes(graph, last) {
    return graph.layout.shapes.map((shape) => (shape.name === "current-band" ? { ...shape, x1: last } : shape));
  }

  /* Puts each band's name in the middle of the visible part of the band, and hides a name that does not fit. */
  function placedLabels(annotations, shapes, [first, final], pixels) {
    const pixelsPerStep = pixels / (final - first);
    const bands = shapes.filter((shape) => /band$/.test(shape.name) && shape.opacity === 1);
    let place = 0;
    return annotations.map((label) => {
      if (label.name !== "band-label") return label;
      const band = bands[place++];
      const from = Math.max(band.x0, first);
      const to = Math.min(band.x1, final);
      const isVisible = (to - from) * pixelsPerStep > label.text.length * LABEL_PIXELS_PER_CHARACTER + LABEL_PADDING;
      return { ...label, x: isVisible ? (from + to) / 2 : label.x, visible: isVisible };
    });
  }

  const isValueAxis = (key) => /^yaxis\d+$/.test(key);

  /* The range of a value axis fitted to the steps in view, or null if none of its lines has a value there. */
  function fittedRange(traces, name, isLog, [from, to]) {
    const seen = traces
      .filter((trace) => trace.meta.role === "line" && trace.yaxis === name.replace("axis", ""))
      .flatMap((trace) => trace.y.filter((y, at) => y !== null && trace.x[at] >= from && trace.x[at] <= to));
    if (!seen.length) return null;
    const ends = [Math.min(...seen), Math.max(...seen)].map((y) => (isLog ? Math.log10(y) : y));
    const pad = (ends[1] - ends[0] || Math.abs(ends[0]) || 1) * PAD;
    const range = [ends[0] - pad, ends[1] + pad];
    return Number.isFinite(range[1] - range[0]) ? range : null; // no axis can have the distance of the largest numbers
  }

  /* Between the values in view may lie no tick at 1, 2 or 5 of a decade, so Plotly chooses the ticks of few decades. */
  function tickmodeOf(range) {
    const decades = range[1] - range[0];
    return decades >= DIGIT_DECADES[0] && decades < DIGIT_DECADES[1] ? "linear" : "auto";
  }

  /* While the steps are zoomed, each panel's values are fitted to the steps in view. */
  function fittedAxes(graph, last) {
    const layout = {};
    const inView = stepsInView(graph, last);
    for (const name of Object.keys(graph.layout).filter(isValueAxis)) {
      const axis = graph._fullLayout[name];
      const isLog = axis.type === "log";
      const range = isLog || graph.rlvitalsZoom ? fittedRange(graph.data, name, isLog, inView) : null;
      if (range && graph.rlvitalsZoom) layout[`${name}.range`] = range;
      else if (!axis.autorange) layout[`${name}.autorange`] = true;
      if (range && isLog && tickmodeOf(range) !== axis.tickmode) layout[`${name}.tickmode`] = tickmodeOf(range);
    }
    return layout;
  }

  const isNear = (one, other) => Math.abs(one - other) < 1e-9 * (1 + Math.abs(one));
  const isRange = (wanted, axis) => !axis.autorange && wanted.every((end, at) => isNear(end, axis.range[at]));

  /* Moves the band names to where they belong, and gives what of it Plotly has still to be told. Told of a moved name,
     Plotly computes every trace anew, several times the work of a zoom; but each draw of an axis range draws the names
     where the layout has them. So while the steps are zoomed they are moved there, and the draw of the range does the rest.
     Of a name that was hidden when Plotly read the layout it knows nothing, not even the text. */
  function movedLabels(graph, shapes, last) {
    const moved = {};
    const { annotations } = graph.layout;
    placedLabels(annotations, shapes, stepsInView(graph, last), graph._fullLayout.xaxis._length).forEach((label, at) => {
      for (const key of ["x", "visible"]) {
        if (label[key] === annotations[at][key]) continue;
        const known = graph._fullLayout.annotations[at];
        if (graph.rlvitalsZoom && known.text !== undefined) {
          annotations[at][key] = known[key] = label[key];
          moved["xaxis.range"] = graph.rlvitalsZoom;
        } else moved[`annotations[${at}].${key}`] = label[key];
      }
    });
    return moved;
  }

  /* The steps in view where they are few, since Plotly would put ticks between them; else null, and it chooses. A distance
     of 1 between ticks would still hold in the draw that shows many steps again, which takes seconds for as many ticks. */
  function ticksOfFewSteps(from, to) {
    if (to - from >= FEW_STEPS) return null;
    const first = Math.ceil(from);
    return Array.from({ length: Math.floor(to) - first + 1 }, (_, at) => first + at);
  }

  /* What of the layout must follow the last step and the zoom: only that which differs, for Plotly computes every trace
     anew where a whole list is replaced. */
  function trimmings(graph, last) {
    const { xaxis, shapes } = graph.layout;
    const grown = grownShapes(graph, last);
    const layout = movedLabels(graph, grown, last);
    const put = (name, value, held) => value !== held && (layout[name] = value);
    grown.forEach((shape, at) => put(`shapes[${at}].x1`, shape.x1, shapes[at].x1));
    const [from, to] = stepsInView(graph, last);
    const zoom = graph.rlvitalsZoom;
    put("xaxis.autorangeoptions.clipmax", Math.max(last, xaxis.autorangeoptions.clipmin + 1), xaxis.autorangeoptions.clipmax);
    const ticks = ticksOfFewSteps(from, to);
    if (String(ticks) !== String(xaxis.tickvals ?? null)) layout["xaxis.tickvals"] = ticks;
    if (zoom && !isRange(zoom, graph._fullLayout.xaxis)) layout["xaxis.range"] = zoom;
    for (const [name, value] of Object.entries(fittedAxes(graph, last))) {
      const [axis, part] = name.split(".");
      if (part !== "range" || !isRange(value, graph._fullLayout[axis])) layout[name] = value;
    }
    return layout;
  }

  /* Draws traces with new columns, by their numbers, in one redraw. */
  function put(graph, changed, layout) {
    const columnsOf = (name) => [...changed].map(([index, columns]) => columns[name] ?? graph.data[index][name]);
    const updates = Object.fromEntries(COLUMNS.map((name) => [name, columnsOf(name)]));
    return window.Plotly.update(graph, updates, layout, [...changed.keys()]);
  }

  /* Appends steps, oldest first, in one redraw. Gives a promise, or null if there was nothing to draw. */
  function extend(graph, steps) {
    const changed = new Map();
    graph.data.forEach((trace, index) => {
      if (trace.meta.role !== "line") return;
      const line = extendedLine(trace, steps);
      if (!line) return;
      changed.set(index, line);
      if (line.marks.length) changed.set(index + 1, extendedMarks(graph.data[index + 1], line.marks));
      const average = graph.data[index + 2];
      if (average && average.meta.role === "average") changed.set(index + 2, extendedAverage(average, line));
    });
    return changed.size ? put(graph, changed, trimmings(graph, steps[steps.length - 1].step)) : null;
  }

  /* Dash hands each zoom and each hover to the server's side of the page, and then draws the whole figure again. No
     callback of ours reads them. */
  function withoutDash(graph) {
    for (const event of ["relayout", "restyle", "hover", "unhover", "click"]) graph.removeAllListeners(`plotly_${event}`);
  }

  /* After every draw (zoom, resize, new figure) the bands grow and their names are placed anew. */
  function watch(graph, onDrawn) {
    if (graph.rlvitalsWatched) return;
    graph.rlvitalsWatched = true;
    withoutDash(graph);
    let isDue = false;
    const rememberZoom = () => {
      const { autorange, range } = graph._fullLayout.xaxis;
      graph.rlvitalsZoom = autorange ? null : [...range];
    };
    const trim = () => {
      isDue = false;
      if (figure() !== graph) return; // the page has changed since the frame was asked for
      if (!graph.rlvitalsZoom) rememberZoom(); // by a call that Plotly tells nobody of
      const wanted = trimmings(graph, lastStep(graph));
      if (Object.keys(wanted).length) window.Plotly.relayout(graph, wanted);
      else onDrawn();
    };
    // In a frame of its own: Plotly tells of a draw before it tells of the zoom that led to it, and trimming at once, which
    // draws, would keep the page from ever hearing of the zoom.
    const trimSoon = () => {
      if (!isDue) requestAnimationFrame(trim);
      isDue = true;
    };
    // A figure from the server knows no zoom. Plotly's uirevision would keep it, had Dash not copied it into its figure.
    graph.on("plotly_relayout", (change) => {
      if (!Object.keys(change).some((key) => key.startsWith("xaxis."))) return;
      rememberZoom();
      window.rlvitals.panels.zoomToSteps(graph.rlvitalsZoom);
    });
    graph.on("plotly_afterplot", trimSoon);
    window.rlvitals.offerResponses(graph, () => true);
    trim();
  }

  /* The layout of a figure from the server in a zoom: its steps, values that are fitted to them, and the names of bands. */
  function zoomedLayout(data, layout, zoom, pixels) {
    const zoomed = { ...layout, annotations: placedLabels(layout.annotations, layout.shapes, zoom, pixels) };
    const put = (axis, range, more) => (zoomed[axis] = { ...layout[axis], autorange: false, range, ...more });
    for (const axis of Object.keys(layout).filter((key) => /^xaxis\d*$/.test(key))) put(axis, [...zoom]);
    for (const axis of Object.keys(layout).filter(isValueAxis)) {
      const isLog = layout[axis].type === "log";
      const range = fittedRange(data, axis, isLog, zoom);
      if (range) put(axis, range, isLog && { tickmode: tickmodeOf(range) });
    }
    return zoomed;
  }

  /* Draws the figure of the server in the zoom that holds, at once as it is to be, for each draw takes as long as the others. */
  function redraw({ figure: { data, layout }, live }) {
    const graph = figure();
    if (!graph) return;
    const { rlvitalsZoom: zoom, _fullLayout } = graph;
    window.Plotly.react(graph, data, zoom ? zoomedLayout(data, layout, zoom, _fullLayout.xaxis._length) : layout);
    window.rlvitals.limitPoints(live.max_points);
  }

  /* Whether the server must draw the figure anew: for a new attempt, a new phase, or a signal that is not drawn so far. */
  function needsServer(graph, steps, live) {
    const current = graph.layout.shapes.find((shape) => shape.name === "current-band");
    const phase = graph.layout.annotations.filter((note) => note.name === "band-label").pop();
    const last = lastStep(graph);
    return steps.some(
      (step) =>
        step.attempt > live.attempt ||
        (step.step > last && (!current || (phase && phase.text !== step.phase))) ||
        live.missing.some((signal) => signal in step.signals),
    );
  }

  /* Whether a line ends before the newest one of some steps, which are given by their signals. */
  function endsBefore(graph, newest) {
    return graph.data.some(({ meta, x }) => {
      return meta.role === "line" && newest.get(meta.signal) > (meta.last_step ?? x[x.length - 1] ?? -Infinity);
    });
  }

  /* The points of the longest line. */
  function longest(graph) {
    return Math.max(0, ...graph.data.filter((trace) => trace.meta.role === "line").map((trace) => trace.x.length));
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, {
    figure: { find: figure, endsBefore, extend, extendedMarks, lastDrawn, longerLine, put, redraw, watch, needsServer, longest, lastStep },
  });
})();

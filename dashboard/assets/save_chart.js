/* Saves a chart as PNG, as SVG, or its drawn points as CSV, for a button inside an element with data-chart. */
(function () {
  "use strict";

  /* A name that a spreadsheet would take for a formula begins with an apostrophe; numbers are no names. */
  const FORMULA = /^[=+\-@\t\r]/;
  const shown = (value) => (typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value ?? ""));
  const quoted = (value) => `"${shown(value).replaceAll('"', '""')}"`;

  const NO_LINES = new Set(["marks", "alerts", "events"]); // their heights are places in the chart, and no values

  /* The values in the gaps of a line, by their place: the marks that follow the line hold what it cannot show. */
  function valuesInGaps(trace, next) {
    if (trace.meta?.role !== "line" || next?.meta?.role !== "marks") return new Map();
    return new Map(Array.from(next.x, (x, index) => [x, Number(next.customdata[index])]));
  }

  function rowsOf(trace, next) {
    if (!trace.x || !trace.y || NO_LINES.has(trace.meta?.role)) return [];
    const name = quoted((trace.meta?.name ?? trace.meta?.signal ?? trace.name) + (trace.meta?.role === "average" ? " (smoothed)" : ""));
    const inGaps = valuesInGaps(trace, next);
    return Array.from(trace.x, (x, index) => [name, quoted(x), quoted(trace.y[index] ?? inGaps.get(x))].join());
  }

  /* One row a point: the line's name, its place on the axis, which the head names, and its value. */
  function csvOf(graph) {
    return [`line,${quoted(graph.layout.xaxis?.title?.text ?? "x")},y`, ...graph.data.flatMap((trace, index) => rowsOf(trace, graph.data[index + 1]))].join("\n");
  }

  function download(text, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-save]");
    const chart = button && button.closest("[data-chart]");
    const graph = chart && chart.querySelector(".js-plotly-plot");
    if (!graph) return;
    const filename = chart.dataset.chart.replaceAll("/", "-");
    if (button.dataset.save === "csv") download(csvOf(graph), `${filename}.csv`);
    else window.Plotly.downloadImage(graph, { format: button.dataset.save, filename, scale: button.dataset.save === "png" ? 2 : 1 });
  });
})();

/* Saves a chart as PNG, as SVG, or its drawn points as CSV, for a button inside an element with data-chart. */
(function () {
  "use strict";

  /* A name that a spreadsheet would take for a formula begins with an apostrophe; numbers are no names. */
  const FORMULA = /^[=+\-@\t\r]/;
  const shown = (value) => (typeof value === "string" && FORMULA.test(value) ? `'${value}` : String(value ?? ""));
  const quoted = (value) => `"${shown(value).replaceAll('"', '""')}"`;

  /* One row a point: the line's name, its place and its value. */
  function csvOf(graph) {
    const rows = graph.data
      .filter((trace) => trace.x && trace.y)
      .flatMap((trace) => Array.from(trace.x, (x, index) => [quoted(trace.name || trace.meta?.signal), quoted(x), quoted(trace.y[index])].join()));
    return ["line,x,y", ...rows].join("\n");
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

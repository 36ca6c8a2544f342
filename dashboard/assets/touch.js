/* A finger scrolls the page, also where it begins on a chart: Plotly would take every touch for a drag over steps. A tap
   still reaches the chart, as the click that the browser makes of it. */
(function () {
  "use strict";

  const keepFromPlotly = (event) => event.target.closest?.(".js-plotly-plot") && event.stopPropagation();
  document.addEventListener("touchstart", keepFromPlotly, { capture: true, passive: true });
})();

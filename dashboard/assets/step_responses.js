/* A click on a step of a run's chart offers the sampled responses of that step. */
(function () {
  "use strict";

  /* Charts with another axis than steps cannot find the step of a click. */
  function offer(step) {
    if (typeof step !== "number") return;
    const run = window.location.pathname.replace(/\/$/, "");
    for (const link of document.querySelectorAll(".step-responses")) {
      link.href = `${run}/responses?from=${step}&to=${step}`;
      link.textContent = `Responses of step ${step.toLocaleString("en")}`;
      link.hidden = false;
    }
  }

  const offerFrom = (graph, bySteps) => graph.on("plotly_click", (event) => bySteps() && offer(event.points[0].x));

  window.rlvitals = Object.assign(window.rlvitals || {}, { offerResponses: offerFrom });
})();

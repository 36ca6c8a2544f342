/* The fleet page in the browser: filters, and steps pushed into rows. */
(function () {
  "use strict";

  const SPARKLINE_POINTS = 120;

  function filterFleet(text, project, state, index, ids) {
    const words = (text || "").toLowerCase().split(/\s+/).filter(Boolean);
    const isShown = (run) =>
      (!project || run.project === project) &&
      (!state || state === "all" || run.state === state) &&
      words.every((word) => run.text.includes(word));
    const styles = ids.map((_, place) => (!index[place] || isShown(index[place]) ? {} : { display: "none" }));
    return [styles, !styles.length || styles.some((style) => !style.display)];
  }

  /* Gives true if the server must draw the rows again: an unknown run, or a new phase. */
  function pushFleetStep(step) {
    const row = document.querySelector(`[data-run="${CSS.escape(step.run_id)}"]`);
    if (!row) return true;
    const number = row.querySelector('[data-signal="step"]');
    if (number) number.dataset.number = step.step;
    const since = row.querySelector("[data-epoch]");
    if (since) since.dataset.epoch = Date.now() / 1000;
    const line = row.querySelector("[data-sparkline]");
    if (!line) return true;
    if (line.dataset.signal in step.signals) {
      const value = step.signals[line.dataset.signal];
      const values = JSON.parse(line.dataset.sparkline);
      values.push(typeof value === "number" ? value : null);
      line.dataset.sparkline = JSON.stringify(values.slice(-SPARKLINE_POINTS));
    }
    const phase = row.querySelector("[data-phase]");
    return Boolean(phase && phase.dataset.phase !== step.phase);
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { pushFleetStep });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { filterFleet });
})();

/* The page that compares runs: the address holds what is chosen, so that it can be sent to somebody. */
(function () {
  "use strict";

  function rememberComparison(runs, signals, align, scale, lines, smoothing) {
    const query = new URLSearchParams();
    (runs || []).forEach((run) => query.append("run", run));
    (signals || []).forEach((signal) => query.append("signal", signal));
    if (align !== "step") query.set("x", align);
    if (scale !== "linear") query.set("y", scale);
    if (lines !== "runs") query.set("lines", lines);
    if (smoothing) query.set("smoothing", smoothing);
    window.history.replaceState(window.history.state, "", `${window.location.pathname}?${query}`);
    return "";
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { rememberComparison });
})();

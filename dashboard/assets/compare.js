/* The page that compares runs: the address holds what is chosen, so that it can be sent to somebody. */
(function () {
  "use strict";

  function rememberComparison(runs, signals, align) {
    const query = new URLSearchParams();
    (runs || []).forEach((run) => query.append("run", run));
    (signals || []).forEach((signal) => query.append("signal", signal));
    if (align !== "step") query.set("x", align);
    window.history.replaceState(window.history.state, "", `${window.location.pathname}?${query}`);
    return "";
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { rememberComparison });
})();

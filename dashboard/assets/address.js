/* The address of a page holds what is chosen on it, so that it can be sent to somebody. */
(function () {
  "use strict";

  /* Writes the values of controls into the address by the names of `usual`, without those that equal their usual value. */
  function rememberQuery(usual, values) {
    const query = new URLSearchParams();
    Object.entries(usual).forEach(([name, value], place) => {
      for (const chosen of [values[place] ?? []].flat()) if (chosen !== "" && chosen !== value) query.append(name, chosen);
    });
    const text = query.toString();
    window.history.replaceState(window.history.state, "", window.location.pathname + (text ? `?${text}` : ""));
    return "";
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { rememberQuery });
})();

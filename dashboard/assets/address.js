/* The address of a page holds the values of its controls, so that the view can be sent to another person. */
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

  /* Opens a page without loading the document anew. */
  function openAddress(address) {
    window.history.pushState({}, "", address);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate")); // as Dash's own links do
    window.scrollTo(0, 0);
  }

  let path = window.location.pathname;

  /* Dash draws a page if the path has changed. If only the query has changed, this function asks for the page. */
  function drawAnew() {
    const { pathname, href } = window.location;
    if (pathname === path) window.dash_clientside.set_props("asked-address", { data: href });
    path = pathname;
  }

  for (const event of ["popstate", "_dashprivate_pushstate"]) window.addEventListener(event, drawAnew);

  window.rlvitals = Object.assign(window.rlvitals || {}, { openAddress, rememberQuery });
})();

/* The tab's icon and title show the most severe firing alert of the page. */
(function () {
  "use strict";

  const FIRING = ".summary .badge, .alert.firing, .alert-head.firing";
  const MARKS = { critical: "▲ ", warning: "● " };

  function mostSevere() {
    if (document.querySelector("main [data-gone]")) return ""; // the run was deleted: nothing of it fires
    const has = (severity) => document.querySelector(`main :is(${FIRING})[data-severity="${severity}"]`);
    return Object.keys(MARKS).find(has) || "";
  }

  function show() {
    const severity = mostSevere();
    const icon = document.querySelector('link[rel="icon"]');
    const address = `/assets/favicon${severity && `-${severity}`}.svg`;
    if (icon && icon.getAttribute("href") !== address) icon.setAttribute("href", address);
    const title = (MARKS[severity] || "") + document.title.replace(/^[▲●] /, "");
    if (document.title !== title) document.title = title;
  }

  let isDue = false;
  new MutationObserver(() => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => {
      isDue = false;
      show();
    }, 250);
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["data-severity", "class", "data-gone"] });
})();

/* Removes the first view, which the server wrote into the document, as soon as the page itself is drawn. */
(function () {
  "use strict";

  const DRAWN = "#page :is(.js-plotly-plot .main-svg, .fleet-row, .message, .none-match:not([hidden]))";
  const LONGEST_MS = 20000; // the page is shown then, whatever it has drawn

  const view = document.getElementById("first-view");
  if (!view) return;

  function remove() {
    observer.disconnect();
    view.remove();
  }

  const observer = new MutationObserver(() => document.querySelector(DRAWN) && remove());
  observer.observe(document.body, { subtree: true, childList: true });
  setTimeout(remove, LONGEST_MS);
})();

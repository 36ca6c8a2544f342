/* Draws the parts of a page that are a text of HTML in a data-html attribute, which the server has written and escaped:
   with their elements as components of Dash, each update of the page would take minutes. */
(function () {
  "use strict";

  const opened = new Set(); // names of the parts that a reader has opened, which stay open when they are drawn anew

  function within(root, selector) {
    return [...(root.matches?.(selector) ? [root] : []), ...(root.querySelectorAll?.(selector) ?? [])];
  }

  function draw(element) {
    element.innerHTML = element.dataset.html;
  }

  function reopen(part) {
    if (opened.has(part.dataset.part)) part.open = true;
  }

  function remember({ target: { open, dataset } }) {
    if (!dataset.part) return;
    if (open) opened.add(dataset.part);
    else opened.delete(dataset.part);
  }

  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "attributes") draw(change.target);
      for (const node of change.addedNodes) {
        within(node, "[data-html]").forEach(draw);
        within(node, "details[data-part]").forEach(reopen);
      }
    }
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["data-html"] });

  document.addEventListener("toggle", remember, true); // it does not bubble

  /* A link to another page of the dashboard opens it in this one, as a link of Dash does. */
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-html] a[href^='/runs/']");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    window.rlvitals.openAddress(link.getAttribute("href"));
  });
})();

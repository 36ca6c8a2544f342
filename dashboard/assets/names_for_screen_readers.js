/* Names for screen readers: Dash draws a choice of radio buttons as a list box, and its slider and dropdown without names. */
(function () {
  "use strict";

  function set(element, name, value) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }

  function nameOf(element) {
    const control = element.closest("fieldset, .control, details");
    const label = control && control.querySelector("legend, .control-label, summary");
    return label ? label.textContent : "Choice";
  }

  function nameAll() {
    document.querySelectorAll(":is(.dash-radioitems, .dash-checklist)[role]").forEach((group) => {
      set(group, "role", group.matches(".dash-checklist") ? "group" : "radiogroup");
      set(group, "aria-label", nameOf(group));
      group.querySelectorAll("label:is([role], [aria-selected])").forEach((label) => {
        label.removeAttribute("role");
        label.removeAttribute("aria-selected");
      });
    });
    document.querySelectorAll("[role=slider]:not([aria-label])").forEach((thumb) => set(thumb, "aria-label", nameOf(thumb)));
    document.querySelectorAll(".dash-dropdown-focus-target").forEach((target) => set(target, "tabindex", "-1"));
  }

  let isDue = false;
  new MutationObserver(() => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      nameAll();
    });
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["aria-selected", "role"] });
})();

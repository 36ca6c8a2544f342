/* Names for screen readers: Dash draws a choice of radio buttons as a list box, its slider and its dropdown without names, and
   Plotly draws charts without names. */
(function () {
  "use strict";

  function set(element, name, value) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }

  function labelOf(element) {
    const control = element.closest("fieldset, .control, details");
    return control && control.querySelector("legend, .control-label, summary");
  }

  const nameOf = (element) => labelOf(element)?.textContent ?? "Choice";

  /* The Tab key reaches the button itself. Dash leads it to a hidden input, which screen readers must not come upon. */
  function nameDropdown(button) {
    set(button, "tabindex", "0");
    const label = labelOf(button);
    if (!label || !button.id) return;
    label.id ||= `${button.id}-label`;
    set(button, "aria-labelledby", `${label.id} ${button.id}-value-count ${button.id}-value`);
  }

  function nameChart(graph) {
    const place = graph.closest("[data-chart]");
    const more = place.querySelector('[data-save="csv"], [data-export]') ? "; the button CSV saves its values" : "";
    set(graph, "role", "img");
    set(graph, "aria-label", `Chart of ${place.dataset.chart}${more}`);
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
    document.querySelectorAll("button.dash-dropdown").forEach(nameDropdown);
    document.querySelectorAll("[data-chart] .js-plotly-plot").forEach(nameChart);
  }

  let isDue = false;
  new MutationObserver(() => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      nameAll();
    });
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["aria-selected", "role", "tabindex"] });

  /* Dash opens a dropdown where a letter is typed, the blank too, whose click would close it again. */
  const isBlankOnDropdown = (event) => event.key === " " && event.target.matches?.("button.dash-dropdown");
  document.addEventListener("keyup", (event) => isBlankOnDropdown(event) && event.stopPropagation(), true);
})();

/* Panels that are pinned stand first, and wide ones take a whole row; the browser remembers both for each project. */
(function () {
  "use strict";

  const CHOICES = { pin: "rlvitals-pinned", wide: "rlvitals-wide" };

  const projectOf = (panel) => panel.closest("[data-project]").dataset.project;

  function chosen(kind, project) {
    return JSON.parse(localStorage.getItem(`${CHOICES[kind]} ${project}`) || "[]");
  }

  function show(panel) {
    const project = projectOf(panel);
    for (const kind in CHOICES) {
      const isChosen = chosen(kind, project).includes(panel.dataset.panel);
      panel.classList.toggle(`is-${kind}`, isChosen);
      const button = panel.querySelector(`[data-choice="${kind}"]`);
      if (button) button.setAttribute("aria-pressed", String(isChosen));
    }
  }

  function showAll() {
    document.querySelectorAll("[data-panel]").forEach(show);
  }

  function toggle(panel, kind) {
    const project = projectOf(panel);
    const held = chosen(kind, project);
    const signal = panel.dataset.panel;
    const next = held.includes(signal) ? held.filter((name) => name !== signal) : [...held, signal];
    localStorage.setItem(`${CHOICES[kind]} ${project}`, JSON.stringify(next));
    show(panel);
    window.dispatchEvent(new Event("resize")); // Plotly draws the chart in its new size
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choice]");
    if (button) toggle(button.closest("[data-panel]"), button.dataset.choice);
  });

  window.rlvitals = Object.assign(window.rlvitals || {}, { showPanelChoices: showAll });
})();

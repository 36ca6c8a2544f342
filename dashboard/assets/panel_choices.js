/* What a reader has chosen for panels, which the browser remembers for each project: pinned ones stand first, wide ones take
   a whole row, and each group has its order and each panel its height. */
(function () {
  "use strict";

  const TOGGLES = ["pin", "wide"];
  const KEYS = { pin: "rlvitals-pinned", wide: "rlvitals-wide", order: "rlvitals-order", height: "rlvitals-height" };
  const LOWEST = 100; // pixels
  const MOVES = { earlier: -1, later: 1 };

  const projectOf = (element) => element.closest("[data-project]").dataset.project;
  const nameOf = (panel) => panel.dataset.panel;
  const panelsOf = (group) => [...group.querySelectorAll("[data-panel]")];

  const kept = (kind, project) => JSON.parse(window.rlvitals.kept(`${KEYS[kind]} ${project}`));
  const readNames = (kind, project) => kept(kind, project) || [];
  // A group or a panel may have the name of a property that every object has.
  const readByName = (kind, project) => Object.assign(Object.create(null), kept(kind, project));

  function write(kind, project, value) {
    window.rlvitals.keep(`${KEYS[kind]} ${project}`, JSON.stringify(value));
  }

  function show(panel) {
    const project = projectOf(panel);
    for (const kind of TOGGLES) {
      const isChosen = readNames(kind, project).includes(nameOf(panel));
      panel.classList.toggle(`is-${kind}`, isChosen);
      const button = panel.querySelector(`[data-choice="${kind}"]`);
      if (button) button.setAttribute("aria-pressed", String(isChosen));
    }
    const height = readByName("height", project)[nameOf(panel)];
    if (height) panel.style.setProperty("--height", `${height}px`);
    else panel.style.removeProperty("--height");
  }

  /* Puts the panels of a group in the remembered order; new signals follow at the end. */
  function arrange(group) {
    const order = readByName("order", projectOf(group))[group.dataset.panelGroup];
    if (!order) return;
    const place = (panel) => (order.includes(nameOf(panel)) ? order.indexOf(nameOf(panel)) : order.length);
    const panels = panelsOf(group);
    const sorted = [...panels].sort((one, other) => place(one) - place(other));
    if (sorted.some((panel, at) => panel !== panels[at])) group.querySelector(".panels").append(...sorted);
  }

  function showAll() {
    document.querySelectorAll("[data-panel-group]").forEach(arrange);
    document.querySelectorAll("[data-panel]").forEach(show);
  }

  function toggle(panel, kind) {
    const project = projectOf(panel);
    const held = readNames(kind, project);
    const name = nameOf(panel);
    write(kind, project, held.includes(name) ? held.filter((other) => other !== name) : [...held, name]);
    show(panel);
    window.dispatchEvent(new Event("resize")); // Plotly draws the chart in its new size
  }

  function rememberOrder(group) {
    const orders = readByName("order", projectOf(group));
    write("order", projectOf(group), { ...orders, [group.dataset.panelGroup]: panelsOf(group).map(nameOf) });
  }

  /* Puts a panel in the place of another one of its group. */
  function put(panel, other) {
    const isAfter = panel.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (isAfter) other.after(panel);
    else other.before(panel);
    rememberOrder(panel.closest("[data-panel-group]"));
  }

  function move(button, panel) {
    const shown = panelsOf(panel.closest("[data-panel-group]")).filter((other) => !other.hidden);
    const other = shown[shown.indexOf(panel) + MOVES[button.dataset.move]];
    if (other) put(panel, other);
    button.focus(); // an element that moves loses it
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-choice], [data-move]");
    if (!button) return;
    const panel = button.closest("[data-panel]");
    if (button.dataset.choice) toggle(panel, button.dataset.choice);
    else move(button, panel);
  });

  /* The browser's own handle of an element that can be resized writes the height into the style of the chart. */
  document.addEventListener("pointerup", () => {
    for (const chart of document.querySelectorAll(".panel-chart[style*=height]")) {
      const panel = chart.closest("[data-panel]");
      const height = Math.round(chart.getBoundingClientRect().height);
      chart.style.removeProperty("height");
      setHeight(panel, height);
    }
  });

  function setHeight(panel, height) {
    write("height", projectOf(panel), { ...readByName("height", projectOf(panel)), [nameOf(panel)]: height });
    show(panel);
  }

  /* Makes the chart of the panel in focus taller or lower; returns whether there is one. */
  function resizePanel(by) {
    const panel = document.activeElement.closest("[data-panel]");
    const chart = panel && panel.querySelector(".panel-chart");
    if (!chart) return false;
    setHeight(panel, Math.max(LOWEST, Math.round(chart.getBoundingClientRect().height) + by));
    window.dispatchEvent(new Event("resize"));
    return true;
  }

  /* The choices were changed in another tab of this browser. */
  window.addEventListener("storage", (event) => {
    if (event.key === null || Object.values(KEYS).some((name) => event.key.startsWith(`${name} `))) showAll();
  });

  let dragged = null; // the panel whose name is dragged

  const targetOf = (event) => {
    const panel = dragged && event.target.closest && event.target.closest("[data-panel]");
    const isOfGroup = panel && panel !== dragged && panel.closest("[data-panel-group]") === dragged.closest("[data-panel-group]");
    return isOfGroup ? panel : null;
  };

  document.addEventListener("dragstart", (event) => {
    const name = event.target.closest && event.target.closest("[data-panel] h3");
    dragged = name ? name.closest("[data-panel]") : null;
  });
  document.addEventListener("dragover", (event) => targetOf(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    const panel = targetOf(event);
    if (!panel) return;
    event.preventDefault();
    put(dragged, panel);
  });

  window.rlvitals = Object.assign(window.rlvitals || {}, { resizePanel, showPanelChoices: showAll });
})();

/* The runs that a reader selects by their boxes to compare them; the selection is kept while rows are loaded and removed. */
(function () {
  "use strict";

  const LEAST = 2;
  const MOST = 20; // as in dashboard/pages/compare/comparison.py
  const chosen = new Set(); // ids of runs, in the order in which they were chosen

  function choose(id, isChosen) {
    if (isChosen) chosen.add(id);
    else chosen.delete(id);
    show();
  }

  function show(problem) {
    const count = `${chosen.size} selected`;
    window.dash_clientside.set_props("fleet-chosen", { children: problem || (chosen.size ? count : "") });
    window.dash_clientside.set_props("fleet-choose-none", { hidden: !chosen.size });
  }

  /* Clicks the box of the run whose link has the focus. */
  function toggleFocused() {
    const link = document.activeElement.closest(".fleet-row[data-run]");
    const box = link && document.querySelector(`.ag-row[row-id="${CSS.escape(link.dataset.run)}"] .fleet-choice`);
    if (box) box.click();
    return Boolean(box);
  }

  function compareChosen() {
    if (chosen.size >= LEAST && chosen.size <= MOST) {
      window.rlvitals.openAddress(`/compare?${new URLSearchParams([...chosen].map((id) => ["run", id]))}`);
    } else {
      const few = `Select ${LEAST} to ${MOST} runs by the boxes before their names; ${chosen.size || "none"} ${chosen.size === 1 ? "is" : "are"} selected.`;
      show(chosen.size > MOST ? `At most ${MOST} runs can be compared; ${chosen.size} are selected.` : few);
    }
    return window.dash_clientside.no_update;
  }

  function chooseNone() {
    chosen.clear();
    document.querySelectorAll(".fleet-choice").forEach((box) => (box.checked = false));
    show();
    return window.dash_clientside.no_update;
  }

  const choice = { choose, has: (id) => chosen.has(id), show, toggleFocused };
  window.rlvitals = Object.assign(window.rlvitals || {}, { choice });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { chooseNone, compareChosen });
})();

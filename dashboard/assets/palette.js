/* The palette finds pages and runs by the typed text: Enter opens the first link, and the arrow keys go to the others. */
(function () {
  "use strict";

  function openPalette() {
    const palette = document.getElementById("palette");
    if (!palette || document.querySelector("dialog[open]")) return;
    palette.showModal();
    palette.querySelector("input").select();
  }

  function movePalette(palette, by) {
    const stops = [palette.querySelector("input"), ...palette.querySelectorAll("a")];
    const next = stops[stops.indexOf(document.activeElement) + by];
    if (next) next.focus();
  }

  let awaited = null; // the text for which Enter was pressed before its links came

  function openFirst(palette) {
    const typed = palette.querySelector("input").value;
    const isFound = palette.querySelector("[data-typed]").dataset.typed === typed;
    awaited = isFound ? null : typed;
    if (isFound) palette.querySelector("a")?.click();
  }

  function openAwaited() {
    const palette = document.getElementById("palette");
    if (awaited === null || !palette) return;
    if (palette.open && palette.querySelector("input").value === awaited) openFirst(palette);
    else awaited = null;
  }

  document.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // Enter takes over a word, the arrows choose one
    const palette = event.target.closest("#palette");
    if ((event.ctrlKey || event.metaKey) && event.key === "k") openPalette();
    else if (palette && event.key === "ArrowDown") movePalette(palette, 1);
    else if (palette && event.key === "ArrowUp") movePalette(palette, -1);
    else if (palette && event.key === "Enter" && event.target.matches("input")) openFirst(palette);
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => event.target.closest("#palette a") && document.getElementById("palette").close());
  window.addEventListener("popstate", () => document.getElementById("palette")?.close());
  new MutationObserver(openAwaited).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["data-typed"] });
})();

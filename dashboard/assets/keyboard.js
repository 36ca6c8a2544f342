/* Keys for the whole dashboard; the dialog in components/shell.py lists them. */
(function () {
  "use strict";

  const CHOICES = ".fleet-row, .alert a[href], .panel";
  const FIELDS = "input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]";

  function findField() {
    const field = document.querySelector("main input[type=search], main input.find, main .find input");
    if (field) field.focus();
    return Boolean(field);
  }

  let chosen = null; // the address or the signal of what was chosen: a redraw makes new elements

  function nameOf(choice) {
    return choice.getAttribute("href") || choice.textContent;
  }

  function choices() {
    return [...document.querySelectorAll(`main :is(${CHOICES})`)].filter((choice) => choice.offsetParent);
  }

  function choose(choice) {
    chosen = nameOf(choice);
    if (!choice.matches("a, button")) choice.tabIndex = -1;
    choice.focus();
    choice.scrollIntoView({ block: "nearest" });
  }

  function move(by) {
    const found = choices();
    if (!found.length) return false;
    const active = document.activeElement;
    const place = found.findIndex((choice) => (active === document.body ? nameOf(choice) === chosen : choice === active));
    const next = place < 0 ? (by > 0 ? 0 : found.length - 1) : Math.min(found.length - 1, Math.max(0, place + by));
    choose(found[next]);
    return true;
  }

  /* The element that was chosen is gone: choose the one that was drawn in its place. */
  function restore() {
    if (chosen === null || document.activeElement !== document.body) return;
    const again = choices().find((choice) => nameOf(choice) === chosen);
    if (again) again.focus({ preventScroll: true });
  }

  function openHelp() {
    const help = document.getElementById("keys");
    if (help && !help.open) help.showModal();
    return Boolean(help);
  }

  function goHome() {
    const home = document.querySelector(".wordmark");
    if (home) home.click();
    return Boolean(home);
  }

  const KEYS = { "/": findField, j: () => move(1), k: () => move(-1), g: goHome, "?": openHelp, "+": () => resize(40), "-": () => resize(-40), x: () => window.rlvitals.choice.toggleFocused() };
  const resize = (pixels) => window.rlvitals.resizePanel(pixels);

  /* The palette leads to what is typed: Enter opens the first link, and the arrows go to the others. */
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

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest(FIELDS)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (Object.hasOwn(KEYS, event.key) && KEYS[event.key]()) event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    if (chosen !== null && (!event.target.matches(CHOICES) || nameOf(event.target) !== chosen)) chosen = null;
  });
  document.addEventListener("pointerdown", () => (chosen = null));
  new MutationObserver(openAwaited).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["data-typed"] });
  new MutationObserver(restore).observe(document.documentElement, { subtree: true, childList: true });
  document.addEventListener("click", (event) => event.target.closest("#keys-open") && openHelp());
})();

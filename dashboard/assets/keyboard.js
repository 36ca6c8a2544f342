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

  function move(by) {
    const choices = [...document.querySelectorAll(`main :is(${CHOICES})`)].filter((choice) => choice.offsetParent);
    if (!choices.length) return false;
    const place = choices.indexOf(document.activeElement);
    const next = place < 0 ? (by > 0 ? 0 : choices.length - 1) : Math.min(choices.length - 1, Math.max(0, place + by));
    if (!choices[next].matches("a, button")) choices[next].tabIndex = -1;
    choices[next].focus();
    choices[next].scrollIntoView({ block: "nearest" });
    return true;
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

  const KEYS = { "/": findField, j: () => move(1), k: () => move(-1), g: goHome, "?": openHelp };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest(FIELDS)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (Object.hasOwn(KEYS, event.key) && KEYS[event.key]()) event.preventDefault();
  });
  document.addEventListener("click", (event) => event.target.closest("#keys-open") && openHelp());
})();

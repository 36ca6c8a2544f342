/* Keys for the whole dashboard; the dialog in components/page_frame.py lists them. */
(function () {
  "use strict";

  const CHOICES = ".fleet-row, .alert a[href], .panel";
  const FIELDS = "input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]";

  const REDRAWN = ":is(#run-header, #run-alerts, #alert)"; // the server draws their content anew while it is shown

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

  let focused = null; // the element of a redrawn part that the keyboard has focused, and its place among its equals

  function nameInPart(element) {
    const part = element.matches("summary") && element.parentElement.dataset.part;
    return [element.tagName, element.id || part || nameOf(element)].join();
  }

  /* Several links of a part may have one address. */
  function equalsOf(name) {
    return [...document.querySelectorAll(`${REDRAWN} :is(a[href], button, summary, input, [tabindex])`)].filter((found) => nameInPart(found) === name);
  }

  function noteFocus(element) {
    focused = null;
    if (!element.closest(REDRAWN) || !element.matches(":focus-visible")) return;
    const name = nameInPart(element);
    focused = { element, name, place: equalsOf(name).indexOf(element) };
  }

  /* If the selected or focused element was removed, this selects the element that was drawn in its place. */
  function restore() {
    if (document.activeElement !== document.body) return;
    if (chosen !== null) {
      const again = choices().find((choice) => nameOf(choice) === chosen);
      if (again) again.focus({ preventScroll: true });
    } else if (focused && !focused.element.isConnected) restoreFocus(focused);
  }

  /* A part is drawn at once. What comes back later is something else: a key would press it unseen. */
  function restoreFocus({ element: gone, name, place }) {
    focused = null;
    const again = equalsOf(name)[place];
    if (!again) return;
    again.focus({ preventScroll: true });
    if (again.matches(FIELDS)) again.setSelectionRange(gone.selectionStart, gone.selectionEnd);
  }

  function openHelp() {
    const help = document.getElementById("keys");
    if (help && !help.open) help.showModal();
    return Boolean(help);
  }

  function goHome() {
    const home = document.querySelector(".wordmark");
    const stays = window.rlvitals.hasWritten() && !window.confirm("Leave this page? The text that you have written in a form is lost.");
    if (home && !stays) home.click();
    return Boolean(home);
  }

  function leave(field) {
    field.blur();
    focused = null;
  }

  /* A judgement has two answers, the field of a dropdown chooses one of its options, and a second Enter would agree to the
     question that the form of retention asks before it deletes runs. */
  function pressButtonOf(field) {
    if (!field.matches("input") || field.closest(".judgement-form, .retention-form, .dash-dropdown-content")) return;
    const buttons = field.closest(window.rlvitals.requests.FORMS)?.querySelectorAll(".button") ?? [];
    if (buttons.length === 1) buttons[0].click();
  }

  const KEYS = { "/": findField, j: () => move(1), k: () => move(-1), g: goHome, "?": openHelp, "+": () => resize(40), "-": () => resize(-40), x: () => window.rlvitals.choice.toggleFocused() };
  const resize = (pixels) => window.rlvitals.resizePanel(pixels);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest(FIELDS)) {
      if (event.key === "Escape") leave(event.target);
      if (event.key === "Enter" && !event.repeat) pressButtonOf(event.target);
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (Object.hasOwn(KEYS, event.key) && KEYS[event.key]()) event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    if (chosen !== null && (!event.target.matches(CHOICES) || nameOf(event.target) !== chosen)) chosen = null;
    noteFocus(event.target);
  });
  document.addEventListener("pointerdown", () => (chosen = focused = null));
  new MutationObserver(restore).observe(document.documentElement, { subtree: true, childList: true });
  document.addEventListener("click", (event) => event.target.closest("#keys-open") && openHelp());

  window.rlvitals = Object.assign(window.rlvitals || {}, { FIELDS });
})();

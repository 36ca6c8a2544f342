/* A view that somebody shows (POST /api/v1/view): the page says so, and a tab that follows opens it by itself. The dialog
   behind "Show" shows the page that is open. */
(function () {
  "use strict";

  const FOLLOW = "rlvitals-follow"; // kept for this tab, also while it is loaded anew
  const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

  let shown = null; // the view that is announced
  let path = location.pathname;
  let pressed = null; // the form of the button that was pressed last, if it stands in one
  const written = new Map(); // id of a field -> its form, its newest text, which another page would lose, and when it was written

  const follows = () => window.rlvitals.kept(FOLLOW, "sessionStorage") === "on";
  const isHere = (view) => view.address === location.pathname + location.search;

  /* The collector accepts only addresses of its own pages; a dashboard that forwards a stream checks them again. */
  function isOurs(address) {
    return /^\/(?![/\\])/.test(address) && new URL(address, location.origin).origin === location.origin;
  }

  function formOf(element) {
    const form = element?.closest(window.rlvitals.requests.FORMS);
    return form && (formOf(form.parentElement) ?? form); // the outermost one
  }

  const nameOf = (form) => form?.querySelector("[id]").id;

  /* A form may be drawn anew, with its text or without it. */
  function holds(name, text) {
    const form = formOf(document.getElementById(name));
    return Boolean(form) && [...form.querySelectorAll("input, textarea")].some((field) => field.value === text);
  }

  const hasWritten = () => [...written.values()].some(({ form, text }) => text && holds(form, text));

  /* The text of a form is stored once the server has answered the click on its button, but for what was written since. */
  function noteSaved(buttons, asked) {
    for (const name of buttons) {
      const button = document.getElementById(name.slice(0, name.lastIndexOf(".")));
      const saved = button ? nameOf(formOf(button)) : pressed; // a question of the browser belongs to the button before it
      for (const [field, { form, at }] of written) if (form === saved && at <= asked) written.delete(field);
    }
  }

  /* The page does not change for a reader who types, has text in a form, or has an open dialog. */
  function isBusy() {
    const field = document.activeElement;
    return Boolean(hasWritten() || document.querySelector("dialog[open]") || (field && field.matches(window.rlvitals.FIELDS)));
  }

  /* What another person may not read is left without a question. */
  window.addEventListener("beforeunload", (event) => {
    if (hasWritten() && !window.rlvitals.requests.isLeaving()) event.preventDefault();
  });

  function element(tag, text, more) {
    return Object.assign(document.createElement(tag), { textContent: text }, more);
  }

  function draw() {
    const words = document.getElementById("shown-view-text");
    const buttons = document.getElementById("shown-view-buttons");
    if (!words) return;
    if (!shown) {
      words.replaceChildren();
      buttons.replaceChildren();
      return;
    }
    const { view, isFollowed } = shown;
    const by = element("p", "", { className: "shown-by" });
    by.append(element("strong", view.by, { dir: "auto" }), isFollowed ? " has opened this page in this tab" : " shows a page");
    by.append(element("span", CLOCK.format(1000 * view.at), { className: "number" }));
    words.replaceChildren(by);
    if (view.note) words.append(element("p", view.note, { className: "shown-note", dir: "auto" }));
    const close = element("button", "Close", { type: "button", className: "quiet" });
    close.dataset.closes = "shown-view";
    const follow = element("button", "", { type: "button", className: "quiet" });
    follow.dataset.follow = "";
    const open = element("a", "Open", { className: "button", href: view.address });
    buttons.replaceChildren(...(isFollowed || isHere(view) ? [follow, close] : [open, follow, close]));
    showChoice();
  }

  function showChoice() {
    document.querySelectorAll("#follow, [data-follow]").forEach((button) => {
      button.textContent = "Follow";
      button.title = follows() ? "This tab opens the pages that others show" : "Let this tab open the pages that others show without a click";
      button.setAttribute("aria-pressed", String(follows()));
    });
  }

  function say(view, isFollowed) {
    shown = { view, isFollowed };
    draw();
  }

  function showView(view) {
    if (!isOurs(view.address)) return;
    notePage(); // the page has changed before the server draws it
    if (!follows() || isBusy()) say(view, false);
    else if (isHere(view)) say(view, true);
    else {
      window.rlvitals.openAddress(view.address); // the stream goes on, so that a view that follows at once is heard
      notePage();
      say(view, true);
    }
  }

  function close() {
    shown = null;
    draw();
  }

  /* On another page of this tab nothing is written yet, and it is not the one that was followed to. */
  function notePage() {
    if (location.pathname === path) return;
    path = location.pathname;
    written.clear();
    if (shown?.isFollowed) close();
  }

  function openDialog() {
    const address = location.pathname + location.search.replaceAll("\\", "%5C"); // the one sign that browsers leave as it is
    window.dash_clientside.set_props("show-address", { data: address });
    window.dash_clientside.set_props("show-state", { children: "" });
    document.getElementById("show-dialog").showModal();
  }

  document.addEventListener("input", (event) => {
    const form = nameOf(formOf(event.target));
    if (form) written.set(event.target.id || form, { form, text: event.target.value, at: performance.now() });
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("button")) pressed = nameOf(formOf(event.target));
    if (event.target.closest("#show")) openDialog();
    if (event.target.closest('[data-closes="shown-view"]')) close();
    if (!event.target.closest("#follow, [data-follow]")) return;
    window.rlvitals.keep(FOLLOW, follows() ? "off" : "on", "sessionStorage");
    showChoice();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest("#shown-view")) close();
    if (event.key === "Enter" && !event.isComposing && event.target.matches("#show-note")) document.getElementById("show-send").click();
  });

  /* Dash draws the frame when it has loaded. */
  new MutationObserver((_, observer) => {
    if (!document.getElementById("shown-view")) return;
    observer.disconnect();
    showChoice();
  }).observe(document.documentElement, { subtree: true, childList: true });

  window.rlvitals = Object.assign(window.rlvitals || {}, { formOf, hasWritten, notePage, noteSaved, showView });
})();

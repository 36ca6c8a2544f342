/* Desktop notifications about alerts, for readers who switch them on. The choice is kept in this browser. */
(function () {
  "use strict";

  const CHOICE = "rlvitals-notify";
  const NOTIFIED = new Set(["critical", "warning"]);

  const known = new Set(); // ids and severities of the alerts that people were told of while this page was open

  let isRefused = false; // by Chrome on Android, where a page has the constructor, which throws

  const isPossible = () => "Notification" in window && window.isSecureContext && !isRefused;

  function notifies() {
    return isPossible() && Notification.permission === "granted" && window.rlvitals.kept(CHOICE) === "on";
  }

  function show() {
    const button = document.getElementById("notify");
    if (!button) return;
    button.hidden = !isPossible();
    button.setAttribute("aria-pressed", String(notifies()));
    button.title = notifies() ? "Notifications of the desktop are on" : "Notify me on this desktop when an alert opens";
  }

  function create(title, options) {
    try {
      return new Notification(title, options);
    } catch {
      isRefused = true;
      show();
      return null;
    }
  }

  async function toggle() {
    const isWanted = !notifies();
    // Without permission nothing is shown, but the constructor tells whether there is one to ask for.
    if (isWanted && Notification.permission === "default" && !create("")) return;
    window.rlvitals.keep(CHOICE, isWanted ? "on" : "off");
    if (isWanted && Notification.permission === "default") await Notification.requestPermission();
    if (isWanted && Notification.permission === "denied") {
      window.alert("This browser blocks notifications of this address. Allow them in its settings, then try again.");
    }
    show();
  }

  /* Shows an alert that has opened or become more severe, once; nobody is notified of a silenced one. A visible page shows
     the alert itself. */
  function notify(alert) {
    const stage = alert.stage ?? alert.state; // of a collector that sends no stage
    if (alert.state !== "firing" || stage === "silenced" || !NOTIFIED.has(alert.severity)) return;
    const tag = `${alert.id} ${alert.severity}`;
    const isNew = !known.has(tag);
    known.add(tag);
    if (!isNew || stage !== "firing" || !notifies() || document.visibilityState === "visible") return;
    const shown = create(`${alert.severity}: ${alert.run}`, { body: alert.summary, tag });
    if (!shown) return;
    shown.onclick = () => {
      window.focus();
      window.location.assign(`/runs/${alert.run_id}/alerts/${alert.id}`);
    };
  }

  document.addEventListener("click", (event) => event.target.closest("#notify") && toggle());
  new MutationObserver((_, observer) => {
    if (!document.getElementById("notify")) return;
    observer.disconnect();
    show();
  }).observe(document.documentElement, { subtree: true, childList: true });

  window.rlvitals = Object.assign(window.rlvitals || {}, { notifies, notify });
})();

/* Shows who is signed in, signs out, and opens the sign-in page when the session has ended. */
(function () {
  "use strict";

  const otherTabs = new BroadcastChannel("rlvitals-session");
  let reader = null; // the name of who is signed in; this page shows what they may read
  let isSignedOut = false;

  window.rlvitals = window.rlvitals || {};

  function leave(go) {
    window.rlvitals.requests.leave();
    go();
  }

  /* A page with text in a form stays, shows its forms alone, and works again once another tab has signed in. */
  function openSignIn() {
    if (window.rlvitals.hasWritten()) {
      isSignedOut = true;
      window.rlvitals.requests.showSignedOut(true);
      window.rlvitals.endStream();
      return;
    }
    leave(() => location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`));
  }

  async function check() {
    let session;
    try {
      const answer = await fetch("/api/v1/session");
      if (answer.status === 401) openSignIn();
      if (!answer.ok) return;
      session = await answer.json();
    } catch {
      return; // the page says that nobody answers
    }
    if (reader && session.name !== reader) return leave(() => location.reload()); // what another person may not read
    if (!reader) otherTabs.postMessage("signed in");
    reader = session.name;
    if (isSignedOut) window.rlvitals.askForPage();
    isSignedOut = false;
    window.rlvitals.requests.showSignedOut(false);
    const button = document.getElementById("sign-out");
    if (!button || !session.name) return;
    button.textContent = session.by_key ? `Sign out ${session.name}` : session.name;
    button.disabled = !session.by_key; // a proxy has signed the user in
    button.hidden = false;
  }

  document.addEventListener("click", async (event) => {
    if (!event.target.closest("#sign-out")) return;
    const answer = await fetch("/api/v1/session", { method: "DELETE" }).catch(() => null);
    if (!answer?.ok) return window.rlvitals.requests.showUnsent(); // the cookie is still valid
    otherTabs.postMessage("signed out");
    leave(() => location.assign("/sign-in"));
  });

  window.rlvitals.checkSession = check;
  otherTabs.onmessage = (event) => (event.data === "signed out" || isSignedOut) && check();

  /* Dash draws the bar when it has loaded. */
  const watcher = new MutationObserver(() => {
    if (!document.getElementById("sign-out")) return;
    watcher.disconnect();
    check();
  });
  watcher.observe(document.documentElement, { childList: true, subtree: true });
})();

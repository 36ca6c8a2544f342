/* Sends the key to the collector, which answers with a cookie, and opens the page that was asked for. */
(function () {
  "use strict";

  /* Only a path of this site: "//elsewhere" and "/\elsewhere" lead to another one, and so does "/.//elsewhere" once the
     dots are removed. */
  function wanted() {
    const next = new URLSearchParams(location.search).get("next") || "/";
    const target = new URL(next, location.origin);
    const isOurs = [next, target.pathname].every((path) => /^\/(?![/\\])/.test(path));
    return isOurs && target.origin === location.origin ? target.pathname + target.search : "/";
  }

  async function signIn(event) {
    event.preventDefault();
    const refusal = document.getElementById("refusal");
    refusal.textContent = "";
    const key = document.getElementById("key").value.trim();
    try {
      const answer = await fetch("/api/v1/session", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ key }),
      });
      if (answer.ok) {
        location.replace(wanted());
        return;
      }
      refusal.textContent = (await answer.json()).detail;
    } catch {
      refusal.textContent = "The server does not answer; try again.";
    }
  }

  /* The messages for the results of a sign-in by OpenID Connect; the collector's log has the details. */
  const REFUSALS = {
    no_group:
      "You have signed in at the provider, but none of your groups may use this collector. " +
      "The administrator of the collector can add a group to RLVITALS_OIDC_GROUPS.",
    unverified:
      "Your rights here depend on your e-mail address, and the provider does not confirm that the address is verified. " +
      "Verify the address at the provider, then sign in again.",
    expired: "This sign-in was begun in another browser, or too long ago; sign in again.",
    refused: "The provider has refused the sign-in; try again, or ask the administrator of the provider.",
    invalid: "The answer of the provider is not valid for this collector; the collector's log has the reason.",
    provider: "The provider does not answer as it must; try again later. The collector's log has the reason.",
  };

  function showRefusal() {
    const reason = new URLSearchParams(location.search).get("refused");
    if (reason !== null && Object.hasOwn(REFUSALS, reason)) {
      document.getElementById("refusal").textContent = REFUSALS[reason];
    }
  }

  async function showProvider() {
    const answer = await fetch("/api/v1/session/methods");
    const name = answer.ok ? (await answer.json()).oidc : null;
    if (!name) return;
    const link = document.getElementById("provider");
    document.getElementById("provider-name").textContent = name;
    link.querySelector("a").search = new URLSearchParams({ next: wanted() }).toString();
    link.hidden = false;
  }

  showRefusal();
  showProvider().catch(() => {});
  document.getElementById("sign-in").addEventListener("submit", signIn);
})();

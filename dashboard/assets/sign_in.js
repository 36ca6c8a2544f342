/* Sends the key to the collector, which answers with a cookie, and opens the page that was asked for. */
(function () {
  "use strict";

  /* Only a path of this site: "//elsewhere" and "/\elsewhere" lead to another one. */
  function wanted() {
    const next = new URLSearchParams(location.search).get("next") || "/";
    const target = new URL(next, location.origin);
    return /^\/(?![/\\])/.test(next) && target.origin === location.origin ? target.pathname + target.search : "/";
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

  document.getElementById("sign-in").addEventListener("submit", signIn);
})();

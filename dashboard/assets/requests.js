/* Sends Dash's requests: read requests are repeated until they are answered, and the bar shows if the collector answers. */
(function () {
  "use strict";

  const SLOW_MS = 2000; // the bar says so where an answer takes longer
  const LONGEST_MS = 120000; // an answer that takes longer does not come any more; the longest is that of a dry run
  const PAUSE_MS = 3000; // until a question is asked again
  const UNSENT_MS = 10000; // the bar says for so long that a click was not sent
  const FAILING_MS = 20000; // the bar says so for as long after the last answer that failed
  const PAGE = "page.children"; // the output of what draws a page
  const AWAITED = "fleet-grid.getRowsResponse"; // until the table has these rows it asks for no others
  const FRAME = /^page\.children$|^(\.\.)?(palette|show)-/; // outputs that belong to no page: they stay when another is drawn
  const FAILING = "rlvitals-collector"; // as in dashboard/page_delivery/callback_requests.py
  const SAVED = "rlvitals-saved"; // likewise
  const AWAY = new Set([502, 503, 504]); // what a proxy answers in place of a collector that is away
  const SIGNED_OUT = 401;
  const UNKNOWN = 422; // what this dashboard answers to an update that its own pages do not ask for
  const FORMS = "main :is(.label-form, .comment-and-silence, .judgement-form, .settings-form, .form-row)";
  const OWN = document.currentScript.src; // its address contains a hash of its content

  const newest = new Map(); // output of a callback -> its newest request
  const unanswered = new Set(); // for each click that is not answered yet, the names of what was clicked
  let asked = 0; // requests that are not answered yet
  let pages = 0; // that were asked for, and that were drawn
  let due = null; // the newest request for a page, until it is answered with one
  let slow = 0; // those of them that take long
  let answerMs = 0; // the longest answer since it was forgotten
  let failingTimer = null;
  let unsentTimer = null;
  let isLeaving = false; // for the sign-in page: what is refused meanwhile is no failure of this one

  const never = new Promise(() => {});
  const nothing = () => new Response(null, { status: 204 }); // Dash changes nothing
  const send = window.fetch;
  window.fetch = (address, options) => {
    const path = String(address.url || address);
    if (path.includes("/_dash-update-component")) return askCounted(address, options);
    return path.includes("/_dash-") ? ask(address, options, path, false, () => false) : send(address, options);
  };

  async function askCounted(address, options) {
    const { output, changedPropIds: changed } = JSON.parse(options.body);
    const isClick = (changed || []).some((name) => name.endsWith("_clicks")); // it may write, and is not repeated
    const page = pages;
    const isLate = () => page !== pages && !FRAME.test(output); // Dash would write it into the page that is drawn now
    const began = performance.now();
    asked += 1;
    if (isClick) unanswered.add(changed);
    try {
      if (output === PAGE) {
        due = options;
        pages += 1; // a late answer to the page before would make that one live again
        unanswered.clear(); // its buttons may have the ids of those before
        await window.rlvitals.listen();
      }
      const answer = await ask(address, options, output, isClick, isLate);
      if (isClick && answer.headers.has(SAVED)) window.rlvitals.noteSaved(changed, began);
      if (isLate()) return nothing();
      if (output.startsWith(PAGE) && answer.status === 200) {
        pages += 1;
        if (due === options) due = null;
      }
      return answer;
    } finally {
      asked -= 1;
      unanswered.delete(changed);
    }
  }

  async function ask(address, options, question, isOnce, isLate) {
    const request = {};
    newest.set(question, request);
    for (;;) {
      try {
        if (isLeaving) return never;
        const answer = await answerOf(address, options);
        if (isLeaving) return never;
        if (answer.status === UNKNOWN) showOutdated();
        if (answer.status === SIGNED_OUT) {
          window.rlvitals.checkSession(); // the cookie has ended, while the stream goes on
          return nothing();
        }
        const isLacking = AWAY.has(answer.status) || (answer.headers.has(FAILING) && question.includes(AWAITED));
        if (isOnce || !isLacking) return answer;
      } catch (error) {
        if (isOnce) {
          showUnsent();
          showBeside(JSON.parse(options.body).changedPropIds[0]);
          throw error;
        }
      }
      showFailing();
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      if (newest.get(question) !== request || isLate()) return nothing();
    }
  }

  /* Returns the answer once it is complete. */
  async function answerOf(address, options) {
    let isSlow = 0;
    const timer = setTimeout(() => showSlow((slow += isSlow = 1)), SLOW_MS);
    const began = performance.now();
    try {
      const answer = await send(address, { ...options, signal: AbortSignal.timeout(LONGEST_MS) });
      const body = await answer.blob();
      if (answer.headers.has(FAILING)) {
        showFailing();
        window.rlvitals.askAgain();
      } else if (!AWAY.has(answer.status)) showAnswering();
      return answer.status === 204 ? answer : new Response(body, answer);
    } finally {
      answerMs = Math.max(answerMs, performance.now() - began);
      clearTimeout(timer);
      showSlow((slow -= isSlow));
    }
  }

  function mark(name, isMarked) {
    const element = document.getElementById("live-state");
    if (element) element.toggleAttribute(name, isMarked);
  }

  const showSlow = (count) => mark("data-slow", count > 0);

  /* Shows the failure, because the place beside the button stays empty if the page's server did not answer. */
  function showUnsent() {
    clearTimeout(unsentTimer);
    unsentTimer = setTimeout(() => mark("data-unsent", false), UNSENT_MS);
    mark("data-unsent", true);
  }

  /* The message of an earlier press would else stand beside a form that was not sent. */
  function showBeside(changed) {
    const button = document.getElementById(changed.slice(0, changed.lastIndexOf(".")));
    const form = window.rlvitals.formOf(button);
    const status = form?.querySelector("[role=status][id]:not(.field-problem)") ?? form?.querySelector("[role=status][id]");
    if (!status) return;
    const id = status.id.startsWith("{") ? JSON.parse(status.id) : status.id;
    window.dash_clientside.set_props(id, { children: "Not sent: nobody answers." });
  }

  function showFailing() {
    clearTimeout(failingTimer);
    failingTimer = setTimeout(showAnswering, FAILING_MS);
    mark("data-failing", true);
  }

  /* The server was upgraded while this page was open: it may not know the updates that the page asks for. */
  const showOutdated = () => mark("data-outdated", true);

  const showSignedOut = (isSignedOut) => mark("data-signed-out", isSignedOut);

  async function checkVersion() {
    try {
      const answer = await send(OWN, { cache: "no-store" });
      if (answer.status === 404) showOutdated();
      await answer.body?.cancel();
    } catch {
      // the page says that nobody answers
    }
  }

  function showAnswering() {
    clearTimeout(failingTimer);
    mark("data-failing", false);
  }

  /* A repeated press would write the same again: the second click of a double click, or a press before the answer. */
  function stopRepeated(event) {
    const button = event.target.closest(`${FORMS} :is(.button, .quiet)`);
    if (!button) return;
    const isUnanswered = [...unanswered].some((changed) => changed.includes(`${button.id}.n_clicks`));
    if (event.detail > 1 || isUnanswered) event.stopPropagation();
  }
  document.addEventListener("click", stopRepeated, true);

  /* The Back button may restore the page as it was before a sign-in; it would send no requests, so it is loaded again. */
  window.addEventListener("pageshow", (event) => event.persisted && isLeaving && window.location.reload());

  const requests = {
    FORMS,
    isAsking: () => asked > 0,
    isPageDue: () => due !== null,
    longestMs: () => answerMs,
    forgetLongest: () => (answerMs = 0),
    leave: () => (isLeaving = true),
    isLeaving: () => isLeaving,
    showSignedOut,
    showUnsent,
    checkVersion,
  };

  window.rlvitals = Object.assign(window.rlvitals || {}, { requests });
})();

/* Listens to the collector's server-sent events for the page that is open, and hands steps on in few redraws. */
(function () {
  "use strict";

  const KEPT_STEPS = 400; // steps remembered, for a figure that arrives while newer steps did
  const QUICK_MS = 250; // at most four redraws a second, and at most a third of the browser's time
  const REFRESH_MS = 2000; // the server draws a page anew at most this often,
  const REFRESH_SHARE = 4; // and rests so many times as long as its last answer took (thousands of runs take a second),
  const LONGEST_REST_MS = 10000; // but no longer than this
  const FORECAST_MS = 10000; // the forecast is read again at most this often
  const AGAIN_MS = 3000; // what the collector did not answer is asked again so much later
  const HIDDEN_MS = 10000; // a page nobody sees for this long stops listening
  const LEAVING_MS = 10000; // the last page's stream takes one of a browser's six connections for no longer than this,
  const LINGER_MS = 2000; // and after that of this page is open so long: what was published before may be on its way
  const OPENING_MS = 1000; // a page waits for its stream no longer than this
  const SILENT_MS = 15000; // a stream that brings nothing for so long may be one that hangs: its comments reach no script
  const ANSWER_MS = 10000; // the collector hangs if it does not answer a question for so long
  const WATCH_MS = 5000;
  const HANGS = new Set([502, 504]); // what a dashboard on its own, or a proxy, answers in place of a collector that hangs
  const TURN = "rlvitals-notifying"; // held by the one page of a browser that listens though nobody sees it

  const NOT_LIVE = new Set(["responses", "rules", "settings"]); // drawn when something is chosen

  let live = null; // what the page that is drawn shows; none while another one is asked for
  let run = null; // that the address names
  let hasBegun = false;
  let hasMissed = false; // an event that the page does not show yet
  let goOn = () => {}; // ends the wait for the stream
  let source = null;
  let heard = 0; // when the stream was opened, brought something, or the collector answered while it brought nothing
  let leaving = null; // the stream of the last page, until that of this page listens: a view between them would be lost
  let leavingTimer = null;
  let steps = [];
  let left = new Map(); // signal -> its newest step that is remembered no more, since the page was last asked for
  let flushTimer = null;
  let refreshTimer = null;
  let lastRefresh = 0;
  let forecastTimer = null;
  let drawMs = 0;
  let lastFlush = 0;
  let hiddenTimer = null;
  let turn = null; // ends the wait for the turn to notify, or the turn
  let wasLost = false;
  let againTimer = null;

  function showState(state) {
    const element = document.querySelector(".live-state");
    if (element) element.dataset.live = state;
  }

  /* The stream is open, and the drawn page shows new events. */
  function showLive() {
    if (live && source?.readyState === EventSource.OPEN) showState("live");
  }

  /* A page that shows a message in its place asks again by itself, and the example of a comparison reads nothing. */
  function hasWhatIsRefreshed() {
    const isCompared = live.page !== "compare" || document.getElementById("compare-legend");
    return isCompared && !document.getElementById("waiting");
  }

  /* The answer with the first charts of a comparison may be older than the event, and no other event may follow. */
  function isDrawn() {
    const body = document.getElementById("compare-body");
    return !body || body.childElementCount > 0;
  }

  function refresh() {
    if (refreshTimer || !live || NOT_LIVE.has(live.page)) return;
    const page = live.page;
    refreshTimer = setTimeout(function ask() {
      // Dash drops an answer if the question is asked again meanwhile.
      const { isAsking, longestMs } = window.rlvitals.requests;
      const due = lastRefresh + Math.min(REFRESH_SHARE * longestMs(), LONGEST_REST_MS);
      if (isAsking() || !isDrawn() || Date.now() < due) {
        refreshTimer = setTimeout(ask, QUICK_MS);
        return;
      }
      refreshTimer = null;
      lastRefresh = Date.now();
      window.rlvitals.requests.forgetLongest();
      if (live && live.page === page && hasWhatIsRefreshed()) {
        window.dash_clientside.set_props(`${page}-refresh`, { data: lastRefresh });
        if (page === "run") window.rlvitals.panels.again();
      }
    }, Math.max(0, lastRefresh + REFRESH_MS - Date.now()));
  }

  /* The collector did not answer. */
  function askAgain() {
    againTimer ??= setTimeout(() => {
      againTimer = null;
      refresh();
    }, AGAIN_MS);
  }

  function refreshForecast() {
    const { run: shown } = live;
    forecastTimer ??= setTimeout(() => {
      forecastTimer = null;
      if (live && live.page === "run" && live.run === shown) {
        window.dash_clientside.set_props("run-forecast-refresh", { data: Date.now() });
      }
    }, FORECAST_MS);
  }

  function scheduleFlush() {
    const due = lastFlush + Math.max(QUICK_MS, 3 * drawMs);
    if (!flushTimer) flushTimer = setTimeout(flush, Math.max(0, due - performance.now()));
  }

  function flush() {
    flushTimer = null;
    lastFlush = performance.now();
    if (!live || live.page !== "run" || document.hidden) return;
    const graph = window.rlvitals.figure.find();
    if (!graph) {
      scheduleFlush();
      return;
    }
    window.rlvitals.figure.watch(graph, onDrawn);
    if (!steps.length) return;
    if (window.rlvitals.figure.needsServer(graph, steps, live)) refresh();
    if (isLeftOut(graph) || window.rlvitals.panels.drawn().some(isLeftOut)) {
      left.clear();
      refresh();
    }
    const began = performance.now();
    const drawn = window.rlvitals.figure.extend(graph, steps);
    const longest = Math.max(window.rlvitals.figure.longest(graph), window.rlvitals.panels.extend(steps));
    if (drawn) drawn.then(() => (drawMs = performance.now() - began));
    if (longest > 2 * live.max_points) refresh(); // the server thins what was appended
  }

  /* Whether a chart has no point for a step that is remembered no more: many steps came at once, or while nobody saw it. */
  const isLeftOut = (graph) => left.size > 0 && window.rlvitals.figure.endsBefore(graph, left);

  /* A figure from the server may be older than what was pushed meanwhile: append that again. */
  function onDrawn() {
    const graph = window.rlvitals.figure.find();
    if (graph && steps.length && steps[steps.length - 1].step > window.rlvitals.figure.lastStep(graph)) scheduleFlush();
  }

  function showNumbers(step) {
    const header = document.getElementById("run-header");
    if (!header) return;
    header.querySelectorAll("[data-number]").forEach((element) => {
      const signal = element.dataset.signal;
      if (signal === "step") element.dataset.number = step.step;
      else if (signal in step.signals) element.dataset.number = step.signals[signal];
    });
    const since = header.querySelector("[data-epoch]");
    if (since && step.last_seen) since.dataset.epoch = step.last_seen; // a collector of another version may not send it
  }

  /* Whether the page shows a run; the fleet and the settings are drawn anew after an event of any run. */
  function isShown(id) {
    if (location.pathname.startsWith("/compare")) return new URLSearchParams(location.search).getAll("run").includes(id);
    return !run || id === run;
  }

  /* Data that the page does not show yet is being read, or is read once the page is drawn. */
  function catchUp() {
    if (live) refresh();
    else hasMissed = true;
  }

  /* The stream was interrupted, or too slow. */
  function catchUpOnSteps() {
    window.rlvitals.curves.readAgain();
    catchUp();
  }

  function onEvent(event) {
    const { id, run_id: about } = JSON.parse(event.data); // an event about a run is the run itself
    if (isShown(about ?? id)) catchUp();
  }

  /* The page of responses is not requested again, so that the responses do not change while a person reads them. */
  function sayGone(deleted) {
    if (live?.page !== "responses" || live.run !== deleted.run_id) return;
    const children = "The collector has no such run any more: it was deleted. This page still shows the data that it had read.";
    window.dash_clientside.set_props("responses-gone", { children, role: "alert" });
  }

  /* A signal may have the name of a property that every object has. */
  function readStep(event) {
    const step = JSON.parse(event.data);
    return { ...step, signals: Object.assign(Object.create(null), step.signals) };
  }

  function onStep(step) {
    if (!live || live.page === "compare") {
      if (isShown(step.run_id)) catchUp();
      return;
    }
    if (live.page === "fleet") {
      if (window.rlvitals.pushFleetStep(step)) refresh();
      return;
    }
    if (step.run_id !== live.run) return;
    const graph = window.rlvitals.figure.find();
    if (graph && step.step <= window.rlvitals.figure.lastStep(graph)) refresh(); // a rewind writes old steps anew
    if (window.rlvitals.panels.lacks(step)) refresh();
    if (steps.some((held) => held.attempt < step.attempt)) left.clear();
    steps = steps.filter((held) => held.attempt >= step.attempt);
    steps.push(step);
    for (const old of steps.splice(0, steps.length - KEPT_STEPS)) {
      for (const signal of Object.keys(old.signals)) left.set(signal, old.step);
    }
    showNumbers(step);
    refreshForecast();
    scheduleFlush();
  }

  function closeLeaving() {
    clearTimeout(leavingTimer);
    if (leaving) leaving.close();
    leaving = null;
  }

  function closeLeavingIn(milliseconds) {
    clearTimeout(leavingTimer);
    leavingTimer = setTimeout(closeLeaving, milliseconds);
  }

  /* A stream that is not open yet has received nothing, so the stream before it stays in use. */
  function leave() {
    if (source?.readyState === EventSource.OPEN) {
      closeLeaving();
      leaving = source;
    } else if (source) source.close();
    closeLeavingIn(LEAVING_MS);
  }

  function close() {
    closeLeaving();
    if (source) source.close();
    source = null;
  }

  function open() {
    leave();
    const query = run && !document.hidden ? `?run_id=${encodeURIComponent(run)}` : ""; // it notifies of all runs
    const stream = new EventSource(`/api/v1/stream${query}`);
    source = stream;
    heard = performance.now();
    const hear = (kind, act) =>
      stream.addEventListener(kind, (event) => {
        if (stream !== source) return;
        heard = performance.now();
        act(event);
      });
    stream.onopen = () => {
      if (stream !== source) return;
      closeLeavingIn(LINGER_MS);
      showLive();
      if (wasLost) {
        window.rlvitals.checkSession(); // another person may have signed in
        catchUpOnSteps();
        window.rlvitals.requests.checkVersion();
      }
      wasLost = false;
      goOn();
    };
    stream.onerror = () => {
      if (stream !== source) return;
      closeLeaving();
      showState("waiting");
      wasLost = true;
      goOn();
      if (stream.readyState === EventSource.CLOSED) {
        window.rlvitals.checkSession(); // the stream is refused when the session has ended
        setTimeout(() => stream === source && open(), AGAIN_MS);
      }
    };
    hear("step", (event) => onStep(readStep(event)));
    hear("alert", (event) => {
      onEvent(event);
      window.rlvitals.notify(JSON.parse(event.data));
    });
    hear("action", onEvent);
    hear("run", onEvent);
    hear("deleted", (event) => {
      onEvent(event);
      sayGone(JSON.parse(event.data));
    });
    stream.addEventListener("view", (event) => window.rlvitals.showView(JSON.parse(event.data)));
    hear("dropped", catchUpOnSteps);
    hear("ended", () => window.rlvitals.checkSession()); // we may no longer read it
  }

  async function isAnswering() {
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), ANSWER_MS);
    try {
      // A redirect is an answer too: that of a proxy where people sign in.
      const answer = await fetch("/api/v1/session", { cache: "no-store", redirect: "manual", signal: giveUp.signal });
      await answer.body?.cancel();
      return !HANGS.has(answer.status);
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  /* A collector that hangs, or a network that loses everything, ends no stream: the stream of a collector that answers is
     replaced if it does not open, and an open one if the collector does not answer. */
  async function watchStream() {
    const stream = source;
    if (stream && stream.readyState !== EventSource.CLOSED && performance.now() - heard > SILENT_MS) {
      const answers = await isAnswering();
      if (answers) heard = performance.now();
      if (stream === source && answers !== (stream.readyState === EventSource.OPEN)) {
        showState("waiting");
        wasLost = true;
        open();
      }
    }
    setTimeout(watchStream, WATCH_MS);
  }
  setTimeout(watchStream, WATCH_MS);

  /* Called before a page is requested: its stream is opened first, so that no event after the reading is missed. */
  function listen() {
    goOn();
    live = null;
    hasBegun = true;
    hasMissed = false;
    run = location.pathname.match(/^\/runs\/([^/]+)/)?.[1] ?? null;
    steps = [];
    left.clear();
    clearTimeout(refreshTimer); // it is the last page's, and would keep this one from its own
    refreshTimer = null;
    document.title = "rlvitals";
    wasLost = document.hidden;
    if (document.hidden) return fallSilent();
    open();
    const stream = source;
    return new Promise((resolve) => {
      goOn = resolve;
      setTimeout(() => {
        if (stream.readyState === EventSource.CONNECTING) wasLost = true; // the page is read before
        resolve();
      }, OPENING_MS);
    });
  }

  /* Called with the content of the page, when it is drawn and whenever the server draws it anew. */
  function connect(next) {
    if (!next) return "";
    window.rlvitals.notePage();
    live = next;
    if (steps.some((held) => held.attempt > live.attempt)) left.clear();
    steps = steps.filter((held) => held.attempt <= live.attempt); // a reset has removed the attempts after it
    document.title = `${live.title} · rlvitals`;
    showLive();
    if (hasMissed) refresh();
    hasMissed = false;
    scheduleFlush();
    return "Whether new steps are pushed to this page";
  }

  /* A figure with more points in its zoomed interval has more points from the beginning. */
  const limitPoints = (points) => live && (live.max_points = points);

  /* Asks for a page that could not be drawn, unless the answer to the last question is still to come. Dash knows the address
     that was opened, and not what controls have written into it since. */
  function retry(tries) {
    const isEarly = window.rlvitals.requests.isAsking() || !tries;
    return isEarly ? window.dash_clientside.no_update : { tries, href: window.location.href };
  }

  /* Asks for the page of a link that was followed while nobody was signed in: it was refused. */
  function askForPage() {
    if (!window.rlvitals.requests.isPageDue()) return;
    window.dash_clientside.set_props("asked-address", { data: window.location.href });
  }

  /* A browser opens six connections to an address, and each stream holds one. So of the pages that nobody sees one listens
     at most, where alerts are to be notified of; the next one follows when it is closed or shown. */
  function fallSilent() {
    close();
    wasLost = true;
    showState("waiting");
    if (turn || !window.rlvitals.notifies()) return;
    const waiting = new AbortController();
    turn = () => waiting.abort();
    const takeTurn = () => {
      open();
      return new Promise((resolve) => (turn = resolve));
    };
    navigator.locks.request(TURN, { signal: waiting.signal }, takeTurn).catch(() => {}); // the page is shown before its turn
  }

  function listenAgain() {
    const isForAll = Boolean(turn);
    if (turn) turn();
    turn = null;
    if (!hasBegun) return;
    if (!source || source.readyState === EventSource.CLOSED || isForAll) open();
    scheduleFlush();
  }

  /* The server ends no stream of a browser that signs out. It refuses the next one, which is asked for until it opens. */
  function endStream() {
    if (source?.readyState === EventSource.OPEN) open();
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(() => hasBegun && fallSilent(), HIDDEN_MS);
    else listenAgain();
  });
  /* Other people change these lists too, and no event reports that. */
  window.addEventListener("focus", () => {
    for (const name of ["keys", "projects", "rules"]) {
      if (document.getElementById(`${name}-list`)) window.dash_clientside.set_props(`${name}-seen`, { data: Date.now() });
    }
  });
  window.addEventListener("pagehide", () => {
    close();
    wasLost = true; // the button Back may show this page as it is now
  });
  window.addEventListener("pageshow", (event) => event.persisted && !document.hidden && listenAgain()); // by the button Back

  window.rlvitals = Object.assign(window.rlvitals || {}, { askAgain, askForPage, drawSteps: scheduleFlush, endStream, limitPoints, listen });
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.rlvitals = Object.assign(window.dash_clientside.rlvitals || {}, { connect, retry });
})();

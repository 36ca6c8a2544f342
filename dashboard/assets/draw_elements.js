/* Draws numbers, times and sparklines from their data- attributes, which the server or the stream writes. */
(function () {
  "use strict";

  function formatNumber(text) {
    if (text === "" || text == null) return "–";
    if (text === "NaN") return "NaN";
    if (text === "Infinity") return "∞";
    if (text === "-Infinity") return "−∞";
    const value = Number(text);
    const size = Math.abs(value);
    let shown;
    if (Number.isInteger(value) && size < 1e7) shown = value.toLocaleString("en-US");
    else if (size >= 1e5 || (size < 1e-3 && size > 0)) shown = value.toExponential(2).replace("+", "");
    else shown = value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
    return shown.replaceAll("-", "−");
  }

  function formatSince(text, now) {
    if (!text) return "–";
    const seconds = Math.max(0, now - Number(text));
    if (seconds < 5) return "just now";
    if (seconds < 60) return `${Math.floor(seconds)} s ago`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86400)} days ago`;
  }

  /* A polyline in a 100 by 24 box, broken where a value is null; a single value is a dot. */
  function sparklineSvg(values) {
    const finite = values.filter((value) => value !== null);
    if (!finite.length) return "";
    const low = Math.min(...finite) / 2;
    const span = Math.max(...finite) / 2 - low || 1; // halves: the whole may be beyond the largest number
    const place = (value, index) => {
      const x = values.length > 1 ? (index / (values.length - 1)) * 98 + 1 : 99;
      return `${x.toFixed(1)} ${(22 - ((value / 2 - low) / span) * 20).toFixed(1)}`;
    };
    let path = "";
    let isPenDown = false;
    values.forEach((value, index) => {
      if (value !== null) path += isPenDown ? `L${place(value, index)}` : `M${place(value, index)}h0`; // a lone value is a dot
      isPenDown = value !== null;
    });
    const last = values.length - 1;
    const dot = values[last] === null ? "" : `<path class="last" d="M${place(values[last], last)}h0"/>`;
    return `<svg viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><path d="${path}"/>${dot}</svg>`;
  }

  function draw(element) {
    const data = element.dataset;
    if ("number" in data) element.textContent = formatNumber(data.number);
    if ("sparkline" in data) element.innerHTML = sparklineSvg(JSON.parse(data.sparkline));
    if ("epoch" in data) tick(element);
    if ("until" in data) element.textContent = LOCAL.format(1000 * data.until);
  }

  const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

  function tick(element) {
    if (element.dataset.epoch) element.title = LOCAL.format(1000 * element.dataset.epoch);
    const shown = formatSince(element.dataset.epoch, Date.now() / 1000);
    if (element.textContent !== shown) element.textContent = shown;
  }

  const DRAWN = "[data-number], [data-sparkline], [data-epoch], [data-until]";

  function drawAll(root) {
    if (root.matches && root.matches(DRAWN)) draw(root);
    if (root.querySelectorAll) root.querySelectorAll(DRAWN).forEach(draw);
  }

  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "attributes") draw(change.target);
      else change.addedNodes.forEach(drawAll);
    }
  }).observe(document.documentElement, {
    subtree: true,
    childList: true,
    attributeFilter: ["data-number", "data-sparkline", "data-epoch"],
  });
  setInterval(() => document.querySelectorAll("[data-epoch]").forEach(tick), 1000);
  drawAll(document.documentElement);
})();

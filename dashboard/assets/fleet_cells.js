/* The cells of the table of runs, for AG Grid. assets/draw_elements.js fills those that have data- attributes. */
(function () {
  "use strict";

  const SHORT_NAME = 20;
  const KEPT_AT_END = 9; // letters
  const SEVERITIES = ["critical", "warning", "info"];

  function element(kind, properties, ...children) {
    return window.React.createElement(kind, properties, ...children);
  }

  function badge(family, name, text) {
    return name && element("span", { className: `badge ${family}`, [`data-${family}`]: name }, text || name);
  }

  /* The browser itself handles a click with a modifier key. */
  function openRun(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    window.rlvitals.openAddress(event.currentTarget.getAttribute("href"));
  }

  function duration(seconds) {
    if (seconds == null) return "–";
    if (seconds < 120) return `${Math.round(seconds)} s`;
    if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
    if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
    return `${(seconds / 86400).toFixed(1)} days`;
  }

  /* Long names often differ only at their ends (seeds, dates), so a name without room loses its middle. */
  function name(text) {
    const letters = [...text];
    if (letters.length <= SHORT_NAME) return element("span", { className: "name" }, text);
    return element(
      "span",
      { className: "name" },
      element("span", { className: "name-start" }, letters.slice(0, -KEPT_AT_END).join("")),
      element("span", { className: "name-end" }, letters.slice(-KEPT_AT_END).join("")),
    );
  }

  const sparkline = ({ signal, values }) =>
    element("span", { className: "sparkline", title: signal, "data-sparkline": JSON.stringify(values) });
  const number = (value) => element("span", { className: "number", "data-number": value ?? "" });

  window.dashAgGridComponentFunctions = Object.assign(window.dashAgGridComponentFunctions || {}, {
    FleetRun: ({ data }) =>
      data && element(
        "a",
        { className: "fleet-row", href: `/runs/${data.id}`, onClick: openRun, "data-run": data.id, title: data.name },
        name(data.run),
        element("span", { className: "project" }, data.project, data.archived ? " · archived" : ""),
      ),
    FleetChoice: ({ data }) =>
      data && element("input", {
        key: data.id, // a box keeps its state, and belongs to one run
        type: "checkbox",
        className: "fleet-choice",
        "aria-label": `Select ${data.run}`,
        defaultChecked: window.rlvitals.choice.has(data.id),
        onChange: (event) => window.rlvitals.choice.choose(data.id, event.currentTarget.checked),
      }),
    FleetPhase: ({ value }) => badge("phase", value),
    FleetStatus: ({ value }) => badge("status", value),
    FleetNumber: ({ value, data }) => data && number(value),
    FleetDuration: ({ value, data }) => data && duration(value),
    FleetSince: ({ value, data }) => data && element("time", { className: "since", "data-epoch": value ?? "" }),
    FleetSparkline: ({ data }) => data && sparkline(window.rlvitals.curves.of(data)),
    FleetAlerts: ({ data }) =>
      data && element(
        "span",
        { className: "cell-alerts", title: data.summary },
        data.severity && badge("severity", data.severity, `${data.counts[data.severity]} ${data.severity}`),
        data.alerts > data.counts[data.severity] && element("span", { className: "more" }, `+${data.alerts - data.counts[data.severity]}`),
      ),
    FleetLead: ({ value, data }) =>
      value && element("span", { title: data.summary }, value, element("span", { className: "more" }, ` ${data.summary}`)),
    FleetTags: ({ value }) =>
      element("span", { className: "cell-alerts" }, ...(value || []).map((tag) => element("span", { className: "tag", key: tag }, tag))),
    FleetGroup: ({ data }) =>
      element("div", { role: "gridcell", className: "fleet-group-cell" }, element(
        "button",
        {
          className: "fleet-group",
          "aria-expanded": String(data.is_open),
          onClick: () => window.rlvitals.toggleFleetGroup(data.key),
        },
        element("span", { className: "group-name" }, data.group),
        element("span", { className: "group-count" }, `${data.count.toLocaleString("en-US")} run${data.count === 1 ? "" : "s"}`),
        badge("phase", data.phase),
        ...SEVERITIES.map((name) => data.counts[name] > 0 && badge("severity", name, `${data.counts[name]} ${name}`)),
      )),
  });
})();

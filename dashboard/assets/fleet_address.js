/* Reads the settings of an address or a saved view: those that the table of runs offers, and the others in words. */
(function () {
  "use strict";

  const LONGEST_NAME = 200; // letters, of a project
  const SHOWN_LETTERS = 40;
  const SHOWN_FILTERS = 4;
  const RELATIONS = {
    contains: "contains", notContains: "does not contain", equals: "equals", notEqual: "does not equal", startsWith: "begins with",
    endsWith: "ends with", blank: "is empty", notBlank: "is not empty", greaterThan: "is above", lessThan: "is below",
    greaterThanOrEqual: "is at least", lessThanOrEqual: "is at most", inRange: "is between",
  };

  const short = (text) => (String(text).length > SHOWN_LETTERS ? `${String(text).slice(0, SHOWN_LETTERS)}…` : String(text));
  const isFilled = (model) => Boolean(model) && typeof model === "object" && !Array.isArray(model);

  /* Returns a filter of AG Grid as the end of a sentence that begins with the column: "is at least 3 or is empty". */
  function inWords(model) {
    if (!isFilled(model)) return "cannot be read";
    const parts = Array.isArray(model.conditions) ? model.conditions : [model.condition1, model.condition2].filter(Boolean);
    if (model.operator) return parts.slice(0, SHOWN_FILTERS).map(inWords).join(model.operator === "OR" ? " or " : " and ");
    const values = [model.filter, model.filterTo].filter((value) => value != null).map(short);
    return [RELATIONS[model.type] || short(model.type), values.join(" and ")].join(" ").trim();
  }

  function isOffered(column, model) {
    const options = column && column.filter && column.filterParams.filterOptions;
    if (!options || !isFilled(model) || !options.includes(model.type)) return false;
    if (model.type === "contains") return typeof model.filter === "string" && model.filter !== "";
    return Number.isFinite(model.filter) && (model.type !== "inRange" || Number.isFinite(model.filterTo));
  }

  /* Returns the filters that the table offers, and the others in words; null where they cannot be read. */
  function readFilters(stated, columns) {
    let given = null;
    try {
      given = JSON.parse(stated);
    } catch {
      // the sentence below states it
    }
    if (!isFilled(given)) return null;
    const offered = {};
    const leftOut = [];
    for (const [name, model] of Object.entries(given)) {
      const column = columns.find((each) => each.colId === name);
      if (isOffered(column, model)) offered[name] = model;
      else leftOut.push(`${column ? column.headerName : short(name)} ${inWords(model)}`);
    }
    return { offered, leftOut };
  }

  function filterNote(leftOut, subject, isView) {
    const more = leftOut.length - SHOWN_FILTERS;
    const listed = leftOut.slice(0, SHOWN_FILTERS).map((each) => `"${each}"`).join(", ") + (more > 0 ? ` and ${more} more` : "");
    const again = isView ? ", and save the view under its name" : "";
    return `${subject} has filters that the table does not offer: ${listed}. They are not applied, so it may show more runs than it
      should. Filter in the heading of the column instead, by a part of a text or by a number above, below or between others${again}.`;
  }

  /* Returns the settings that the table offers, and a sentence for each setting that was left out. */
  function read(given, view, columns, choices) {
    const asked = new URLSearchParams(given);
    const notes = [];
    const subject = view ? `The view "${short(view.name)}"` : "This address";
    const names = columns.map((column) => column.colId);
    const keep = (name, kept) => (kept.length ? asked.set(name, kept.join()) : asked.delete(name));

    if (asked.has("view")) notes.push("The saved view of this address is not there: it was deleted, or it belongs to another project.");
    if (asked.has("filter")) {
      const filters = readFilters(asked.get("filter"), columns);
      if (!filters) notes.push(`${subject} has filters that cannot be read, and none of them is applied.`);
      else if (filters.leftOut.length) notes.push(filterNote(filters.leftOut, subject, Boolean(view)));
      asked.delete("filter");
      if (filters && Object.keys(filters.offered).length) asked.set("filter", JSON.stringify(filters.offered));
    }
    for (const [name, wrong] of [["group", "Runs cannot be grouped by"], ["state", "Runs have no state"]]) {
      if (!asked.has(name) || choices[name].includes(asked.get(name))) continue;
      notes.push(`${wrong} "${short(asked.get(name))}"; choose one above the table.`);
      asked.delete(name);
    }
    if ((asked.get("project") || "").length > LONGEST_NAME) {
      notes.push(`No project has a name of more than ${LONGEST_NAME} letters.`);
      asked.delete("project");
    }
    if (asked.has("columns")) {
      const named = asked.get("columns").split(",");
      const unknown = named.filter((name) => !names.includes(name));
      if (unknown.length) notes.push(`There is no column "${short(unknown[0])}"; the menu Columns lists all columns.`);
      keep("columns", named.filter((name) => names.includes(name)));
    }
    if (asked.has("sort")) {
      const isSort = (sort) => {
        const [name, direction] = sort.split(":");
        const column = columns.find((each) => each.colId === name);
        return column && column.sortable !== false && ["asc", "desc"].includes(direction);
      };
      const sorts = asked.get("sort").split(",");
      const wrong = sorts.find((sort) => !isSort(sort));
      if (wrong !== undefined) notes.push(`Runs cannot be sorted by "${short(wrong)}"; click the heading of a column.`);
      keep("sort", sorts.filter(isSort));
    }
    return { asked, note: notes.join(" ").replace(/\s+/g, " ") };
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { fleetAddress: { read } });
})();

/* What the browser keeps for the scripts of a page. Where it refuses to keep anything, it holds for this page only. */
(function () {
  "use strict";

  const unkept = new Map();

  /* The text that is kept by a name, in "localStorage" or, for this tab alone, in "sessionStorage"; or null. */
  function kept(name, storage = "localStorage") {
    try {
      return unkept.get(name) ?? window[storage].getItem(name);
    } catch {
      return null;
    }
  }

  function keep(name, text, storage = "localStorage") {
    try {
      window[storage].setItem(name, text);
      unkept.delete(name);
    } catch {
      unkept.set(name, text);
    }
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { keep, kept });
})();

/* Light, dark, or as the system has it: chosen by a button, kept in the browser, set before the page is drawn. */
(function () {
  "use strict";

  const KEY = "rlvitals-theme";
  const NEXT = { "": "light", light: "dark", dark: "" };

  function stored() {
    try {
      const theme = localStorage.getItem(KEY) || "";
      return theme in NEXT ? theme : "";
    } catch {
      return ""; // a browser that keeps nothing
    }
  }

  function show(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }

  show(stored());
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    const theme = NEXT[document.documentElement.dataset.theme || ""];
    show(theme);
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      /* it holds for this page */
    }
  });
  window.addEventListener("storage", (event) => event.key === KEY && show(stored()));
})();

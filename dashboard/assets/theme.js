/* The colour scheme: light, dark, or that of the system. A button changes it; it is set before the page is drawn. */
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
      /* without storage, the choice holds for this page only */
    }
  });
  window.addEventListener("storage", (event) => event.key === KEY && show(stored()));
})();

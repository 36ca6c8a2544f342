/* Loads the script of a component library when a page needs it, and then draws the component that the page describes. */
(function () {
  "use strict";

  const PAUSE_MS = 3000; // until a script that did not come is asked for again

  const loading = {};

  function load(address) {
    loading[address] ??= new Promise((loaded) => ask(address, loaded));
    return loading[address];
  }

  function ask(address, loaded) {
    const script = document.createElement("script");
    script.src = address;
    script.onload = loaded;
    script.onerror = () => {
      script.remove();
      setTimeout(() => ask(address, loaded), PAUSE_MS);
    };
    document.head.append(script);
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { load });
})();

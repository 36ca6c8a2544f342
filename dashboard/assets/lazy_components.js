/* Loads the script of a component library when a page needs it, and then draws the component that the page describes. */
(function () {
  "use strict";

  const loading = {};

  function load(address) {
    loading[address] ??= new Promise((loaded, failed) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = loaded;
      script.onerror = () => {
        delete loading[address];
        failed(new Error(`${address} could not be loaded`));
      };
      document.head.append(script);
    });
    return loading[address];
  }

  window.rlvitals = Object.assign(window.rlvitals || {}, { load });
})();

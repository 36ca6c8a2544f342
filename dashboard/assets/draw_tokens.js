/* Draws the tokens of responses from their data-tokens attributes: thousands of components would make a page slow. */
(function () {
  "use strict";

  function element(kind, className, text) {
    const made = document.createElement(kind);
    made.className = className;
    made.textContent = text;
    return made;
  }

  function chip([state, text, heat, title]) {
    const token = element("span", `token ${state}`, text);
    if (heat) token.style.setProperty("--heat", `${heat}%`);
    token.title = title;
    return token;
  }

  function draw(strip) {
    const { before, folded, tokens, after } = JSON.parse(strip.dataset.tokens);
    const chips = tokens.map(chip);
    const parts = chips.slice(folded);
    if (folded) {
      const fold = element("details", "fold", "");
      fold.append(element("summary", "cut", `${folded} equal tokens`), ...chips.slice(0, folded));
      parts.unshift(fold);
    }
    if (before) parts.unshift(element("span", "cut", `${before} tokens before`));
    if (after) parts.push(element("span", "cut", `${after} tokens after`));
    strip.replaceChildren(...parts);
  }

  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "attributes") draw(change.target);
      for (const node of change.addedNodes) {
        if (node.matches && node.matches("[data-tokens]")) draw(node);
        else if (node.querySelectorAll) node.querySelectorAll("[data-tokens]").forEach(draw);
      }
    }
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["data-tokens"] });
})();

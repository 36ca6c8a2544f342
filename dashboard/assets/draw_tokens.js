/* Draws the tokens of responses from their data-tokens attributes: thousands of components would make a page slow. */
(function () {
  "use strict";

  const MORE = 300; // tokens that a click adds

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

  /* The place of tokens that are not drawn: a button if the page has them, or else their number. */
  function cut(strip, name, unsent, sent, next) {
    if (!sent) return unsent ? [element("span", "cut", `${unsent} tokens ${name}`)] : [];
    const button = element("button", "cut", `${unsent + sent} tokens ${name}`);
    button.title = `Show ${Math.min(sent, MORE)} more`;
    button.addEventListener("click", () => {
      draw(strip, next);
      strip.focus();
    });
    return [button];
  }

  function draw(strip, asked) {
    const { before, folded: foldedAtFirst, shown, tokens, after } = JSON.parse(strip.dataset.tokens);
    const [from, to] = asked || shown;
    const folded = asked ? 0 : foldedAtFirst;
    const chips = tokens.slice(from, to).map(chip);
    const parts = chips.slice(folded);
    if (folded) {
      const fold = element("details", "fold", "");
      fold.append(element("summary", "cut", `${folded} equal tokens`), ...chips.slice(0, folded));
      parts.unshift(fold);
    }
    parts.unshift(...cut(strip, "before", before, from, [Math.max(0, from - MORE), to]));
    parts.push(...cut(strip, "after", after, tokens.length - to, [from, Math.min(tokens.length, to + MORE)]));
    strip.replaceChildren(...parts);
  }

  new MutationObserver((changes) => {
    for (const change of changes) {
      if (change.type === "attributes") draw(change.target);
      for (const node of change.addedNodes) {
        if (node.matches && node.matches("[data-tokens]")) draw(node);
        else if (node.querySelectorAll) node.querySelectorAll("[data-tokens]").forEach((strip) => draw(strip));
      }
    }
  }).observe(document.documentElement, { subtree: true, childList: true, attributeFilter: ["data-tokens"] });
})();

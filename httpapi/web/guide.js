// Adds what a page of the guides has with a script alone: a copy button at each block of code, and the way from an
// old address of an operation, which ended in #operation, to the operation's page.
"use strict";
(() => {
  for (const block of document.querySelectorAll(".code-block")) {
    const shown = () => [...block.querySelectorAll("pre")].find((pre) => pre.checkVisibility());
    if (!shown()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(shown().textContent);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      } catch {
        getSelection().selectAllChildren(shown());
      }
    });
    block.querySelector(".code-head").append(button);
  }
  const operation = location.hash && document.querySelector(`.operations > [id="${CSS.escape(location.hash.slice(1))}"] > a`);
  if (operation) location.replace(operation.href);
})();

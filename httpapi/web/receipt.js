// Offers to print the receipt. Without a script the browser's own menu prints it.
"use strict";
(() => {
  const button = document.getElementById("print");
  button.hidden = false;
  button.addEventListener("click", () => print());
})();

// Follows one link: the countdown, copying, and news of the payment. The server says when something has changed, by events or, when they
// do not come, when it is asked; what is shown then is always the server's own HTML.
"use strict";
(() => {
  const main = document.getElementById("checkout");
  const said = document.getElementById("said");
  const id = main.dataset.id;
  const pollEvery = 3000, patience = 3, secondsToStay = 10;
  let shown = main.dataset.state, ended = false, polling = null, failures = 0, source = null, leaving = null;

  const card = () => main.querySelector(".card");
  const say = (text) => { said.textContent = ""; setTimeout(() => { said.textContent = text; }, 50); };

  function tick() {
    const left = document.getElementById("left");
    if (!left) return;
    const seconds = Math.max(0, Math.floor((Date.parse(left.dateTime) - Date.now()) / 1000));
    const two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
    left.textContent = hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
    if (seconds === 0 && !ended) { ended = true; refresh().catch(() => {}); }
  }

  async function copy(button) {
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.textContent);
      const before = button.textContent;
      button.textContent = "Copied";
      say("Copied");
      setTimeout(() => { button.textContent = before; }, 2000);
    } catch {
      getSelection().selectAllChildren(text);
      say("Selected, ready to copy");
    }
  }

  // Copying needs the script, so the HTML hides its buttons.
  function showCopying() {
    for (const button of main.querySelectorAll("[data-copy]")) button.hidden = false;
  }

  async function refresh() {
    const answer = await fetch(`/checkout/${id}?part=1`, { cache: "no-store" });
    if (!answer.ok) return;
    const before = card().dataset.step, focus = document.activeElement && document.activeElement.id;
    main.innerHTML = await answer.text();
    showCopying();
    if (focus) document.getElementById(focus)?.focus();
    const step = card().dataset.step;
    const heading = main.querySelector("h1");
    if (step !== before) {
      document.title = heading.textContent;
      heading.tabIndex = -1;
      heading.focus();
    } else {
      const count = main.querySelector(".count");
      if (count) say(count.textContent);
    }
    if (step === "completed" && before !== "completed") leave();
    if (!("open" in card().dataset)) stop();
  }

  // The customer is told where the page leads, how soon, and how to stop it; any link or button stops it too.
  function leave() {
    const back = document.getElementById("success"), onward = document.getElementById("onward");
    if (!back || !onward) return;
    let left = secondsToStay;
    const count = () => { document.getElementById("seconds").textContent = left === 1 ? "1 second" : `${left} seconds`; };
    count();
    onward.hidden = false;
    say(onward.textContent);
    leaving = setInterval(() => {
      if (--left > 0) { count(); return; }
      clearInterval(leaving);
      location.assign(back.href);
    }, 1000);
  }

  function stay() {
    if (!leaving) return;
    clearInterval(leaving);
    leaving = null;
    const onward = document.getElementById("onward");
    if (onward.contains(document.activeElement)) document.getElementById("success").focus();
    onward.hidden = true;
    say("You stay on this page");
  }

  function news(text) {
    if (text.trim() === shown) return;
    shown = text.trim();
    refresh().catch(() => {});
  }

  function stop() {
    if (source) source.close();
    clearInterval(polling);
  }

  function poll() {
    if (polling) return;
    polling = setInterval(async () => {
      try {
        const answer = await fetch(`/api/v1/checkout/sessions/${id}/status`, { cache: "no-store" });
        if (answer.ok) news(await answer.text());
      } catch { /* the next one may come through */ }
    }, pollEvery);
  }

  function listen() {
    source = new EventSource(`/checkout/${id}/events`);
    source.onmessage = (event) => { failures = 0; news(event.data); };
    source.onerror = () => {
      if (++failures >= patience || source.readyState === EventSource.CLOSED) { source.close(); poll(); }
    };
  }

  showCopying();
  main.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    if (event.target.closest("a, button")) stay();
  });
  if ("open" in card().dataset) {
    setInterval(tick, 1000);
    if ("EventSource" in window) listen(); else poll();
  }
})();

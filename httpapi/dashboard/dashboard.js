// What pages gain with a script: copying, a question before what cannot be undone, and live pages. The HTML is always the server's own.
const policy = window.trustedTypes?.createPolicy("purser", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
// A page looks for changes every lookEvery ms, asks for itself at most every liveEvery, also when no stream tells of changes, and gives a stream up that is silent for silentFor.
// A notice stays for noticeFor, and then until something has changed.
const lookEvery = 250, liveEvery = 3000, silentFor = 15000, noticeFor = 10000;
const said = document.getElementById("said");
const say = (text) => { said.textContent = ""; setTimeout(() => { said.textContent = text; }, 50); };

function enhance() {
  for (const button of document.querySelectorAll("[data-copy], [data-whole]")) button.hidden = false;
  showLive(true);
  countDown();
}

// countDown shows the seconds that are left of a lock. The server counts them, so a wrong clock of the browser does not matter.
function countDown() {
  for (const timer of document.querySelectorAll("[data-left]")) {
    timer.ends ??= performance.now() + 1000 * Number(timer.dataset.left);
    const seconds = Math.max(0, Math.round((timer.ends - performance.now()) / 1000));
    timer.textContent = seconds > 0 ? `${seconds} s left` : "Ended";
    if (seconds === 0) stale = true; // the server says what follows
  }
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy) ?? button.previousElementSibling;
  if (button.dataset.whole) text.textContent = button.dataset.whole;
  try {
    await navigator.clipboard.writeText(text.textContent);
    say("Copied");
    button.blur(); // a page with a focus in it does not follow the workspace
  } catch {
    getSelection().selectAllChildren(text);
    say("Selected, ready to copy");
  }
}

// showLive says beside the title whether the page follows the workspace.
function showLive(live) {
  for (const mark of document.querySelectorAll(".live")) {
    mark.hidden = false;
    mark.classList.toggle("paused", !live);
    mark.textContent = live ? "Live" : "Paused";
  }
}

// markNew marks the rows whose record was not there before.
function markNew(block, known) {
  for (const link of block.querySelectorAll(".records .primary a")) if (!known.has(link.href)) link.closest("tr").classList.add("new");
}

// ask shows the question of a form in a dialog, and sends the form when it is confirmed.
function ask(form) {
  const dialog = document.createElement("dialog"), question = document.createElement("h2"), consequence = document.createElement("p");
  const end = `${form.dataset.confirm} `.lastIndexOf("? ") + 1;
  [question.textContent, consequence.textContent] = [form.dataset.confirm.slice(0, end), form.dataset.confirm.slice(end).trim()];
  const row = document.createElement("div");
  row.className = "buttons";
  for (const [label, style, confirmed] of [["Go back", "button second", false], [form.querySelector("button").textContent, form.querySelector("button").className, true]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = style;
    button.textContent = label;
    button.addEventListener("click", () => { dialog.close(); if (confirmed) send(form); });
    row.append(button);
  }
  dialog.append(question, consequence, row);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// send posts a form whose question is answered.
function send(form) {
  const sure = document.createElement("input");
  [sure.type, sure.name, sure.value] = ["hidden", "sure", "yes"];
  form.append(sure);
  form.submit();
}

// busy reports whether a person is in the middle of something that a fresh page would end.
function busy() {
  const focus = document.activeElement;
  return document.hidden || document.querySelector("dialog[open], .chip details[open]") !== null || !getSelection().isCollapsed ||
    (focus !== null && focus.closest("main .block") !== null) || [...document.querySelectorAll("main input, main textarea, main select")].some(changed);
}

function changed(field) {
  if (field.type === "hidden") return false;
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return [...field.options].some((option) => option.selected !== option.defaultSelected && field.querySelector("[selected]") !== null);
  return field.value !== field.defaultValue;
}

// refresh fetches the page again and replaces the blocks that differ. A form's key differs always and does not count.
async function refresh() {
  const main = document.querySelector("main[data-live]");
  if (!main || busy()) return 0;
  const answer = await fetch(location.href, { cache: "no-store", redirect: "manual" });
  // The session has ended, or no longer sees this page: the browser shows what the server has to say.
  if (answer.type === "opaqueredirect" || [401, 403, 404].includes(answer.status)) {
    location.reload();
    return 10 * liveEvery;
  }
  if (!answer.ok) return 1000 * Number(answer.headers.get("Retry-After") ?? 30);
  const text = await answer.text();
  if (busy()) return lookEvery;
  const page = new DOMParser().parseFromString(policy.createHTML(text), "text/html"), fresh = page.getElementById("main");
  const sections = document.getElementById("sections"), counted = page.getElementById("sections");
  if (counted && counted.innerHTML !== sections.innerHTML && !sections.contains(document.activeElement)) sections.replaceChildren(...counted.childNodes);
  const blocks = [...main.querySelectorAll(":scope > .block")], newer = [...(fresh?.querySelectorAll(":scope > .block") ?? [])];
  if (newer.length === 0) return 0;
  const notice = main.querySelector(":scope > .notice");
  const head = (part) => {
    const header = part.querySelector(":scope > .page-header > div").cloneNode(true);
    header.querySelector(".live")?.remove();
    return header.textContent.trim();
  };
  const known = new Set([...main.querySelectorAll(".records .primary a")].map((link) => link.href));
  if (newer.length !== blocks.length || head(main) !== head(fresh)) main.replaceChildren(...fresh.childNodes);
  else blocks.forEach((block, i) => { if (keyless(block) !== keyless(newer[i])) block.replaceChildren(...newer[i].childNodes); });
  if (known.size > 0) markNew(main, known);
  if (performance.now() > noticeFor) notice?.remove();
  else if (notice?.isConnected === false) main.querySelector(":scope > .block").before(notice);
  enhance();
  return 0;
}

function keyless(block) {
  const copied = block.cloneNode(true);
  for (const field of copied.querySelectorAll("[name=key]")) field.setAttribute("value", "");
  for (const button of copied.querySelectorAll("[data-copy], [data-whole]")) button.hidden = true;
  for (const row of copied.querySelectorAll("tr.new")) row.removeAttribute("class");
  for (const row of copied.querySelectorAll("details")) row.open = false;
  for (const timer of copied.querySelectorAll("[data-left]")) { timer.replaceChildren(); timer.dataset.left = ""; }
  return copied.innerHTML;
}

// follow opens the stream that says when the workspace has changed. A page behind another one has none.
let stream = null, stale = false, heard = performance.now() + liveEvery - silentFor, next = performance.now();
function follow() {
  const main = document.querySelector("main[data-live]");
  stream?.close();
  stream = null;
  if (!main || document.hidden) return;
  stream = new EventSource(main.dataset.live);
  stream.onmessage = (event) => {
    heard = performance.now();
    if (event.data === "changed") stale = true;
  };
}

// showOutage says above a live page that the server does not answer, and takes that away when it does.
function showOutage(out) {
  const shown = document.getElementById("outage");
  showLive(!out);
  if (!out) shown?.remove();
  if (!out || shown) return;
  const warning = document.createElement("p");
  warning.id = "outage";
  warning.className = "notice refused";
  warning.setAttribute("role", "alert");
  warning.textContent = "This page may be out of date: the server does not answer. It is asked again every few seconds.";
  document.getElementById("main").prepend(warning);
}

// live asks for a fresh page after a change, and every liveEvery while no stream is heard.
async function live() {
  const silent = stream === null || stream.readyState === EventSource.CLOSED || performance.now() - heard > silentFor;
  if ((stale || silent) && performance.now() >= next && !busy()) {
    stale = false;
    let wait = 0;
    try { wait = await refresh(); showOutage(false); } catch { wait = liveEvery; showOutage(true); }
    if (wait > 0) stale = true;
    next = performance.now() + Math.max(wait, liveEvery);
  }
  setTimeout(live, lookEvery);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy], [data-whole]");
  if (button) copy(button);
  for (const open of document.querySelectorAll(".switch[open], .chip details[open]")) if (!open.contains(event.target)) open.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll(".switch[open], .chip details[open]")) { open.open = false; open.querySelector("summary").focus(); }
});
document.addEventListener("submit", (event) => {
  if (!event.target.dataset.confirm) return;
  event.preventDefault();
  ask(event.target);
});
// The page that is loaded again does not say again what was done.
const address = new URL(location.href);
for (const name of ["done", "changed"]) address.searchParams.delete(name);
history.replaceState(null, "", address);
enhance();
setInterval(countDown, 500);
document.addEventListener("visibilitychange", follow);
follow();
setTimeout(live, lookEvery);

// A browser, and what is asked of every page in it. PURSER_NODE_MODULES is where playwright-core and axe-core are.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.env.PURSER_NODE_MODULES + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const within = 300_000; // that anything is waited for, in milliseconds: a machine may stand still for a while
export const tries = 1000; // of an action or of a look at a page, half a second apart

// some returns a list of variants, or the named two in the short form.
export const some = (variants, ...short) => process.env.PURSER_PAGES_FORM === "short" ? short.map((i) => variants[i]) : variants;

export const launch = () => chromium.launch({
  timeout: within,
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// faults are what was wrong, by any page, as long as it was open.
export const faults = [];

// judge goes somewhere, takes a picture of the whole page and says what is wrong with it. A word in the
// console that matches expected is no fault.
export async function judge(page, name, go, picture, expected = null) {
  const fault = (text) => { faults.push(text); console.log(`${name}: ${text}`); };
  page.on("console", (message) => { if (message.type() === "error" && !expected?.test(message.text())) fault(message.text()); });
  page.on("pageerror", (error) => fault(error.message));
  await go();
  await page.screenshot({ path: picture, fullPage: true });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) fault(`${wide} pixels too wide`);
  const found = await page.evaluate(`(() => { ${axe}; return axe.run(document, { resultTypes: ["violations"] }); })()`);
  for (const violation of found.violations) {
    const where = violation.nodes.map((node) => node.target.join(" ")).join("; ");
    const text = `${violation.impact}: ${violation.id} at ${where}`;
    if (["serious", "critical"].includes(violation.impact)) fault(text); else console.log(`${name}: (${text})`);
  }
}

// activate presses Enter on an element. A live page may replace it before it gets the focus: then its successor gets it.
export async function activate(element) {
  for (let i = 0; i < 10; i++) {
    await element.focus();
    if (await element.evaluate((e) => e === document.activeElement)) break;
  }
  await element.page().keyboard.press("Enter");
}

// enter writes a text into a field in the place of what is there, from the keyboard.
export async function enter(field, text) {
  await field.press("ControlOrMeta+A");
  await field.press("Delete");
  await field.page().keyboard.insertText(text);
}

// choose turns a list of choices to a value, from the keyboard.
export async function choose(list, value) {
  await list.press("Home");
  for (let i = await list.locator("option").count(); i > 0 && (await list.inputValue()) !== value; i--) await list.press("ArrowDown");
  if ((await list.inputValue()) !== value) throw new Error(`no choice is ${value}`);
}

// tick checks a box or a radio button, from the keyboard.
export async function tick(box) {
  if (!(await box.isChecked())) await box.press("Space");
  if (!(await box.isChecked())) throw new Error("a box is not checked by the space bar");
}

// tabThrough presses Tab around the page and returns what it never came to, or came to without a visible mark. A group of radio
// buttons has one stop.
export async function tabThrough(page) {
  const stops = await page.evaluate(() => {
    const seen = new Set();
    const reached = (e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0 && (e.type !== "radio" || (!seen.has(e.name) && seen.add(e.name)));
    document.activeElement?.blur();
    window.toReach = new Set([...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")].filter(reached));
    document.addEventListener("focusin", ({ target: e }) => {
      const marked = getComputedStyle(e).outlineStyle !== "none";
      for (const one of window.toReach) if (marked && (one === e || (e.type === "radio" && one.name === e.name))) window.toReach.delete(one);
    });
    return window.toReach.size;
  });
  // A date has a stop for each of its parts.
  for (let i = 0; i < stops * 4 && await page.evaluate(() => [...window.toReach].some((e) => e.isConnected)); i++) await page.keyboard.press("Tab");
  // A live page may have replaced some before the first Tab.
  const missed = await page.evaluate(() => [...window.toReach].filter((e) => e.isConnected).map((e) => e.outerHTML.slice(0, 120)));
  await page.evaluate(() => document.activeElement?.blur());
  return missed;
}

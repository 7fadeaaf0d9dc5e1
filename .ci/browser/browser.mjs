// A browser, and what is asked of every page in it. PURSER_NODE_MODULES is where playwright-core and axe-core are.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.env.PURSER_NODE_MODULES + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const within = 120_000; // that anything is waited for, in milliseconds

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

// Looks at the front page, the guides, the search and the API reference of a running server in a real browser: phone and
// desktop, light and dark. Fails on anything axe-core finds serious, on a word in the console, on a page
// that is wider than its window, and on a sample that does not open.
// usage: docs.mjs <http address> <screenshots>
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { launch, judge, faults, some, within } from "./browser.mjs";

const [http, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });
const base = `http://${http}`;
const browser = await launch();

const index = await (await fetch(`${base}/docs`)).text();
const guides = [...index.matchAll(/href="(\/docs\/[a-z-]+)"/g)].map((found) => found[1]);
const missing = "/docs/nothing"; // a page that is not found
const paths = [...new Set(["/", "/docs", ...guides, "/docs/api", "/docs/api/cards", "/docs/api/network", "/docs/search?q=frozen", missing])];
for (const path of paths) {
  for (const [width, colorScheme] of some([[390, "light"], [390, "dark"], [1280, "light"], [1280, "dark"]], 1)) {
    const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme });
    const page = await context.newPage();
    page.setDefaultTimeout(within);
    const name = `${path === "/" ? "front" : "docs"}${path.slice("/docs".length).replaceAll(/[^a-z]+/g, "-")}-${width}-${colorScheme}`;
    const go = async () => {
      const status = (await page.goto(base + path)).status();
      if (status !== (path === missing ? 404 : 200)) faults.push(`${name}: status ${status}`);
    };
    await judge(page, name, go, join(shots, `${name}.png`), path === missing ? /status of 404/ : null);
    await context.close();
  }
}

const page = await browser.newPage();
page.setDefaultTimeout(within);
await page.goto(`${base}/docs/api/cards#mintCard`);
const operation = page.locator("section", { has: page.locator("#mintCard") });
for (const language of ["Python", "TypeScript", "Go"]) {
  await operation.locator("summary", { hasText: new RegExp(`^${language}$`) }).click();
  await operation.locator("details[open] pre", { hasText: "/api/cards" }).first().waitFor();
}
await browser.close();
console.log(faults.length === 0 ? "the guides and the reference are in order" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

// Looks at the front page, the guides, the search and the API reference of a running server in a real browser: phone and
// desktop, light and dark. Fails on anything axe-core finds serious, on a word in the console, on a page
// that is wider than its window, on a sample that does not follow its language, and on a menu that does not open.
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
const paths = [...new Set(["/", "/docs", ...guides, "/docs/api", "/docs/api/cards", "/docs/api/createPayout", "/docs/api/mintCard?language=go", "/docs/api/callTools", "/docs/search?q=frozen", missing])];
for (const path of paths) {
  for (const [width, colorScheme] of some([[390, "light"], [390, "dark"], [1280, "light"], [1280, "dark"], [320, "light"]], 1)) {
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

const context = await browser.newContext({ viewport: { width: 1280, height: 844 } });
await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
const page = await context.newPage();
page.setDefaultTimeout(within);
const expect = (held, text) => { if (!held) { faults.push(text); console.log(text); } };

// An old address of an operation leads to its page, whose links keep the chosen language.
await page.goto(`${base}/docs/api/cards#mintCard`);
await page.waitForURL(/\/docs\/api\/mintCard$/);
for (const [language, sign] of [["Python", "import requests"], ["TypeScript", "await fetch"], ["Go", "package main"]]) {
  await page.locator("#samples nav a", { hasText: new RegExp(`^${language}$`) }).click();
  await page.locator("#samples pre", { hasText: sign }).waitFor();
}
await page.locator(".onward [rel=next]").click();
await page.waitForURL(/language=go/);
await page.locator("#samples pre", { hasText: "package main" }).waitFor();
const copy = page.locator("#samples button", { hasText: "Copy" }).first();
await copy.click();
await page.locator("#samples button", { hasText: "Copied" }).waitFor();
expect((await page.evaluate(() => navigator.clipboard.readText())).startsWith("package main"), "the copy button copies no sample");

// The tabs of a guide work without a script.
const plain = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
await plain.goto(`${base}/docs/webhooks`);
await plain.locator(".tabs label", { hasText: "Go" }).click();
expect(await plain.locator(".tabs pre", { hasText: "func isAuthentic" }).isVisible(), "a tab does not open");
expect(!(await plain.locator(".tabs pre", { hasText: "def is_authentic" }).isVisible()), "a tab does not close");

// The menu of a phone is a sheet that opens without a script.
await plain.setViewportSize({ width: 390, height: 844 });
await plain.locator(".menu").click();
await plain.locator("#sections a", { hasText: "Quickstart" }).click();
await plain.waitForURL(/quickstart/);
await browser.close();
console.log(faults.length === 0 ? "the guides and the reference are in order" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

// The operator's pages on the admin port of a running server, in a real browser: a wrong secret, the sign-in, each page, the sign-out.
// Phone and desktop, light and dark, with the pages' script and without it, judged as the dashboard is.
// usage: operator.mjs <admin address> <file of the secret> <screenshots>
import { join } from "node:path";
import { mkdirSync, readFileSync } from "node:fs";
import { launch, judge, faults, some, within } from "./browser.mjs";

const [admin, secretFile, shots] = process.argv.slice(2);
const secret = readFileSync(secretFile, "utf8").trim();
mkdirSync(shots, { recursive: true });
const browser = await launch();

for (const [width, colorScheme, javaScriptEnabled] of some([[1280, "light", true], [390, "dark", true], [390, "light", false], [1280, "dark", false]], 0)) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme, javaScriptEnabled });
  const page = await context.newPage();
  page.setDefaultTimeout(within);
  const variant = `${width}-${colorScheme}${javaScriptEnabled ? "" : "-noscript"}`;
  page.on("request", (request) => { if (new URL(request.url()).host !== admin) faults.push(`${variant}: a request to ${request.url()}`); });
  const see = async (name, expected = null) => {
    const picture = join(shots, `operator-${name}-${variant}.png`);
    if (javaScriptEnabled) await judge(page, `operator ${name} ${variant}`, async () => {}, picture, expected);
    else await page.screenshot({ path: picture, fullPage: true });
    page.removeAllListeners("console");
    page.removeAllListeners("pageerror");
  };
  const press = async (name) => { await page.getByRole("button", { name, exact: true }).press("Enter"); };
  const open = async (name) => {
    const menu = page.getByRole("button", { name: "Menu", exact: true });
    if (await menu.isVisible()) await menu.press("Enter");
    await page.getByRole("navigation").getByRole("link", { name, exact: true }).press("Enter");
  };

  await page.goto(`http://${admin}/`);
  await page.getByLabel("Operator secret").fill("not the secret");
  await press("Sign in");
  await page.getByRole("alert").waitFor();
  await see("sign-in-refused", /status of 401/);
  await page.getByLabel("Operator secret").fill(secret);
  await press("Sign in");
  await page.getByRole("heading", { name: "Between the stores" }).waitFor();
  await see("health");
  await open("Unmatched");
  await page.getByText("unmatched --json").waitFor();
  await see("unmatched");
  await open("Workspaces");
  await page.getByRole("heading", { name: "Workspaces", exact: true }).first().waitFor();
  await see("workspaces");
  await press("Sign out");
  await page.waitForURL(/sign-in/);
  await see("sign-in");
  await context.close();
}
await browser.close();
console.log(faults.length === 0 ? "the operator's pages are in order" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

// A business in the dashboard of a running server, in a real browser: sign-up, dollars, a card, swipes, a payout, a payment link, a key.
// All of it from the keyboard, on phone and desktop, light and dark, with the pages' script and without it. With the script each page is
// judged: nothing that axe-core finds serious, no word in the console, no page wider than its window, a way by Tab with a visible mark
// to all that can be used, and no request to another host.
// usage: dashboard.mjs <http address> <screenshots>
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { email, forgotten, secondFactor, sessions, settings, team } from "./dashboard_account.mjs";
import { activate, choose, enter, faults, judge, launch, some, tabThrough, tick, tries, within } from "./browser.mjs";
import { links } from "./dashboard_checkout.mjs";
import { currencies } from "./dashboard_currencies.mjs";
import { ramp } from "./dashboard_ramp.mjs";
import { requests, webhooks } from "./dashboard_developers.mjs";
import { agents, cardholders } from "./dashboard_agents.mjs";
import { swipes } from "./dashboard_swipes.mjs";
import { abroad, treasury } from "./dashboard_treasury.mjs";

const [http, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });
const base = `http://${http}`;
const browser = await launch();

// Two businesses at a time: each waits for its money most of the time.
const variants = some([[1280, "light", true], [390, "dark", true], [390, "light", false], [1280, "dark", false]], 1, 2);
await Promise.all([0, 1].map(async () => { while (variants.length > 0) await visit(...variants.shift()); }));
await browser.close();
console.log(faults.length === 0 ? "the dashboard is in order" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

async function visit(width, colorScheme, javaScriptEnabled) {
  const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme, javaScriptEnabled });
  const page = await context.newPage();
  page.setDefaultTimeout(within);
  const variant = `${width}-${colorScheme}${javaScriptEnabled ? "" : "-noscript"}`;
  context.on("request", (request) => { if (new URL(request.url()).host !== http) faults.push(`${variant}: a request to ${request.url()}`); });
  await business(page, variant, javaScriptEnabled);
  await context.close();
}

// choosePayment is a customer who chooses the first way to pay, in a tab of its own. Without its script the page loads itself anew every
// ten seconds, and what was ticked is lost.
async function choosePayment(page, address) {
  page.setDefaultTimeout(within);
  await page.goto(address);
  const chosen = page.getByRole("heading", { name: /^Pay with/ });
  for (let i = 0; i < tries && !(await chosen.count()); i++) {
    try {
      await tick(page.getByRole("radio").first());
      await activate(page.getByRole("button", { name: "Continue", exact: true }));
    } catch (error) { if (!/not checked|context was destroyed/.test(error.message)) throw error; }
    await chosen.waitFor({ timeout: 10_000 }).catch(() => {});
  }
  await chosen.waitFor();
  await page.close();
}

async function business(page, variant, script) {
  // see takes a picture of the page that is shown, and judges it where scripts run.
  const see = async (name, expected = null) => {
    const picture = join(shots, `dashboard-${name}-${variant}.png`);
    if (script) {
      await judge(page, `${name} ${variant}`, async () => {}, picture, expected);
      for (const missed of await tabThrough(page)) { faults.push(missed); console.log(`${name} ${variant}: no way by Tab to ${missed}`); }
    } else await page.screenshot({ path: picture, fullPage: true });
    page.removeAllListeners("console");
    page.removeAllListeners("pageerror");
  };
  const fill = async (fields) => { for (const [label, value] of Object.entries(fields)) await enter(page.getByLabel(label, { exact: true }), value); };
  // narrow opens a filter, fills it by fields or a choice, and applies it.
  const narrow = async (chip, fields, choice = {}) => {
    const form = page.locator(".chip").filter({ has: page.getByText(chip, { exact: true }) });
    await activate(form.locator("summary"));
    for (const [label, value] of Object.entries(fields)) await enter(form.getByLabel(label, { exact: true }), value);
    for (const [label, value] of Object.entries(choice)) await choose(form.getByLabel(label, { exact: true }), value);
    await activate(form.getByRole("button", { name: "Apply" }));
  };
  // segment follows a link of a list's segments.
  const segment = async (name) => { await activate(page.locator(".segments").getByRole("link", { name, exact: true })); };
  // press activates a button from the keyboard.
  const press = async (name) => {
    if (name === "Sign out") await account();
    await activate(page.getByRole("button", { name, exact: typeof name === "string" }).first());
  };
  // account opens the menu of the person and the workspaces.
  const account = async () => { if (!(await page.locator(".switch[open]").count())) await activate(page.locator(".switch summary")); };
  // confirm answers the question of a form: in a dialog, or on a page of its own.
  const confirm = async (name, inDialog = script) => {
    await press(name);
    const asked = inDialog ? page.getByRole("dialog") : page.locator("main:has([name=sure])");
    await asked.getByRole("button", { name, exact: typeof name === "string" }).press("Enter");
  };
  // open follows the navigation, which is behind a button on a phone.
  const open = async (name) => {
    const menu = page.getByRole("button", { name: "Menu", exact: true });
    if (await menu.isVisible()) await activate(menu);
    await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name: new RegExp(`^${name}( \\d+\\+? waiting)?$`) }).press("Enter");
  };
  const told = async (text) => { await page.getByText(text).first().waitFor(); };
  const reloadUntil = async (text) => {
    for (let i = 0; i < tries && !(await page.getByText(text).count()); i++) { await page.waitForTimeout(500); await page.reload(); }
    await told(text);
  };
  // step is what the file of another resource's pages gets.
  const step = { page, script, variant, see, fill, press, confirm, open, told, reloadUntil, narrow, segment };

  await page.goto(`${base}/dashboard`);
  await page.getByRole("link", { name: "Create an account" }).press("Enter");
  await see("sign-up");
  await fill({ Email: `ada-${variant}@example.com`, Password: "short" });
  await press("Create the account");
  await page.getByRole("alert").waitFor();
  await see("sign-up-refused", /status of 4\d\d/);
  await fill({ Email: `ada-${variant}@example.com`, Password: "correct horse battery" });
  await press("Create the account");
  await told("You have no workspace yet");
  await see("workspaces");
  await fill({ Name: "Ada's <b>Tea</b>" });
  await press("Create the workspace");
  await told("First: dollars to spend");
  await see("home-new");
  await press("Add $1,000 of test dollars");
  await told("Next: a card to swipe").catch(() => {});
  const available = page.locator(".stats dd").first();
  for (let i = 0; i < tries && !(await available.innerText()).startsWith("$1,000.00"); i++) { await page.waitForTimeout(500); await page.reload(); }
  await press("Create the card");
  await told("Swipe it");
  await see("card-new");
  // A machine that stands still for a while declines a swipe as late.
  const swipe = async (text, fields = {}) => {
    for (let i = 0; i < 10 && !(await page.getByText(text).count()); i++) {
      await fill(fields);
      const loaded = page.waitForEvent("load");
      await press("Swipe");
      await loaded;
    }
    await told(text);
  };
  await swipe("The swipe was approved.");
  await swipe("The swipe was declined: over the limit per swipe", { Amount: "999.00", Merchant: "<script>alert(1)</script>" });
  await see("card-declined");
  await press("Freeze");
  await told("The card is frozen");
  await see("card-frozen");
  await press("Unfreeze");
  await told("The card is active again");
  await fill({ "Limit of one swipe": "nothing" });
  await press("Change the limits");
  await told("must be an amount in dollars and cents");
  await see("card-refused", /status of 4\d\d/);
  await open("Cards");
  await narrow("Label", { "Label begins with": "shop" });
  await page.waitForURL(/holderLabel=shop/);
  await page.getByRole("link", { name: /^Shopping agent/ }).first().waitFor();
  await see("cards-filtered");
  await swipes(step);
  await agents(step);
  await cardholders(step);
  await open("Recipients");
  await fill({ Name: "Bob Builder", "Routing number": "021000021", "Account number": "12345678" });
  await press("Save the recipient");
  await told("Order the payout");
  await see("recipient");
  await fill({ Amount: "20.00", Description: "Rent" });
  await press("Order the payout");
  await told("Life of this payout");
  await see("payout");
  await open("Payouts");
  await see("payouts");
  await treasury(step);
  await abroad(step);
  await open("Checkout links");
  await fill({ Amount: "25.00", For: "Tea", "Address after the payment": "https://shop.example/thanks" });
  await press("Create the link");
  await told("The customer's page");
  await see("link");
  await choosePayment(await page.context().newPage(), await page.getByRole("link", { name: "Open the page" }).getAttribute("href"));
  await reloadUntil("Simulate the payment");
  await press("Simulate the payment");
  await told("The payment is simulated.");
  await see("link-paid");
  await open("Checkout links");
  await see("links");
  await links(step);
  await currencies(step);
  await ramp(step);
  await open("API keys");
  await fill({ Label: "Shop" });
  await tick(page.getByRole("checkbox", { name: /read:cards/ }));
  await see("keys");
  await press("Create the key");
  await told("Copy the secret now");
  await see("key-secret");
  await open("API keys");
  await page.getByRole("link", { name: "Shop" }).press("Enter");
  await see("key");
  await confirm("Revoke the key");
  await told("Revoked");
  await webhooks(step);
  await requests(step);
  await team(step);
  await settings(step);
  await open("Home");
  await told("Declines, last 24 hours");
  await see("home");
  await page.goto(`${page.url()}/nothing`);
  await see("missing", /status of 404/);
  await account();
  await page.getByRole("link", { name: "Account" }).press("Enter");
  await sessions(step, base, `ada-${variant}@example.com`);
  await secondFactor(step, base, `ada-${variant}@example.com`);
  await email(step, base, `ada-${variant}@example.com`);
  await press("Sign out");
  await page.waitForURL(/sign-in/);
  await see("sign-in");
  await forgotten(step, base);
}

// A customer pays in a real browser, on a running server and its sandbox chains: picks, pays, sees the payment confirmed and completed without
// touching the page, reads where the page leads, and is taken back to the merchant; pays too little, then the rest, stays, and reads and prints
// the receipt; sees a link cancelled and pays it all the same; has neither script nor news. With PURSER_TEST_FULL a link expires, which takes five minutes, and is paid late.
// usage: live.mjs <http address> <admin address> <screenshots>
import { join } from "node:path";
import { mkdirSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { launch, judge, faults, within } from "./browser.mjs";

const [http, admin, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });

async function post(url, body, headers = {}) {
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`POST ${url}: ${answer.status} ${text}`);
  return { json: text ? JSON.parse(text) : null, cookie: answer.headers.getSetCookie().map((cookie) => cookie.split(";")[0]).join("; ") };
}

const api = `http://${http}`;
const { cookie } = await post(`${api}/api/dashboard/signup`, { email: `pages-${randomUUID()}@example.com`, password: "correct horse battery" });
await post(`${api}/api/workspaces`, { name: "Blue Bottle Books" }, { Cookie: cookie });
const { json: made } = await post(`${api}/api/auth/keys`, { label: "pages", scopes: ["write:checkout"] }, { Cookie: cookie });
const key = { Authorization: `Bearer ${made.secret}` };

async function link(extra = {}) {
  const { json } = await post(`${api}/api/v1/checkout/sessions`, { amountUsdCents: 12500, successUrl: `${api}/api/v1/openapi.json#the-merchant`,
    cancelUrl: "https://shop.example.com/cart", description: "Two paperbacks <b>and</b> a lamp", acceptedAssets: ["USDC", "BTC"],
    ...extra }, key);
  return json.session;
}

const pay = (session, reference, amount, chain = "base", asset = "USDC") => post(`http://${admin}/sandbox-pay`, { chain, reference, from: "0xpayer",
  transfers: [{ asset, amountUnits: amount, address: session.receivingAddresses.find((p) => p.chain === chain).address }] });

const browser = await launch();
async function open(session, name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(within);
  await judge(page, name, () => page.goto(session.hostedUrl), join(shots, `live-${name}-open.png`));
  return page;
}
const fault = (text) => { faults.push(text); console.log(text); };
const heading = (page, text) => page.getByRole("heading", { name: text }).waitFor();
const pick = async (page, way = "USDC on Base") => {
  await page.getByLabel(way).check();
  await page.getByRole("button", { name: "Continue" }).first().click();
  await heading(page, /^Pay with/);
};

const picture = (of, name) => of.screenshot({ path: join(shots, `live-${name}.png`), fullPage: true });
const late = "A payment came after the link had ended";

let expiring = null; // and its page, which is left open
if (process.env.PURSER_TEST_FULL) {
  const session = await link({ expiresInSeconds: 300 });
  expiring = { session, page: await open(session, "expired") };
  await pick(expiring.page);
}

let session = await link();
let page = await open(session, "picked");
await page.keyboard.press("Tab"); // by keyboard alone
await page.keyboard.press("Space");
await page.keyboard.press("Tab"); // the ways to pay are one stop
await page.keyboard.press("Enter");
await heading(page, /^Pay with/);
await page.getByText("Pay another way").click();
await pick(page);
await page.getByRole("button", { name: "Copy address" }).click();
await page.getByText(/Copied|Selected/).first().waitFor({ state: "attached" });
await page.reload();
await heading(page, "Pay with USDC on Base");
await pay(session, "full", "125000000");
await heading(page, "Payment seen");
await picture(page, "confirming");
await heading(page, "Payment complete");
await page.getByText(/^You go to 127\.0\.0\.1:\d+ in \d+ seconds?\. Stay on this page$/).first().waitFor();
await page.locator("#said", { hasText: /You go to .* in 10 seconds/ }).waitFor({ state: "attached" });
await picture(page, "completed");
await page.waitForURL(/the-merchant/);
console.log("picked by keyboard, paid, confirmed, completed, told where the page leads, taken back");

session = await link();
page = await open(session, "short");
await page.clock.install(); // so that the seconds until the page leaves can be turned on
await page.reload();
await pick(page);
await page.getByRole("img", { name: "QR code of the address alone" }).waitFor();
await page.getByRole("img", { name: "QR code of the payment request" }).waitFor();
await pay(session, "part", "100000000");
await heading(page, "Some of the payment is missing");
await picture(page, "underpaid");
await pay(session, "rest", "25000000");
await heading(page, "Payment complete");
await page.getByRole("button", { name: "Stay on this page" }).press("Enter");
await page.clock.runFor(30_000);
if (page.url() !== session.hostedUrl) fault(`left for ${page.url()} though asked to stay`);
if (await page.locator("#onward").isVisible()) fault("still says that it leaves");
await judge(page, "live-receipt", () => page.getByRole("link", { name: "Receipt" }).click().then(() => heading(page, "Receipt")),
  join(shots, "live-receipt.png"));
await page.getByText("100 USDC on Base").waitFor();
await page.getByText("25 USDC on Base").waitFor();
await page.getByRole("button", { name: "Print" }).waitFor();
await page.emulateMedia({ media: "print", colorScheme: "dark" });
await picture(page, "receipt-printed");
if (await page.getByText("Print", { exact: true }).isVisible()) fault("a button is printed");
await page.emulateMedia({ media: null });
await page.getByRole("link", { name: "Back to the payment" }).click();
await heading(page, "Payment complete");
console.log("underpaid, then paid, stayed, receipt read and printed");

session = await link();
page = await open(session, "cancelled");
await pick(page);
await post(`${api}/api/dashboard/checkout/sessions/${session.id}/cancel`, {}, { Cookie: cookie });
await heading(page, "This link was cancelled");
await picture(page, "cancelled");
await pay(session, "after", "125000000");
await page.getByText(late).waitFor();
await picture(page, "cancelled-late");
console.log("cancelled while it is open, and paid too late");

session = await link();
page = await open(session, "polling");
await page.context().close();
const blind = await browser.newContext();
page = await blind.newPage();
page.setDefaultTimeout(within);
await page.route("**/events", (route) => route.abort());
await page.goto(session.hostedUrl);
await pick(page, "BTC on Bitcoin");
await post(`${api}/api/dashboard/checkout/sessions/${session.id}/cancel`, {}, { Cookie: cookie });
await heading(page, "This link was cancelled");
console.log("followed by asking when no events come");

session = await link();
const plain = await browser.newContext({ javaScriptEnabled: false });
page = await plain.newPage();
page.setDefaultTimeout(within);
await page.goto(session.hostedUrl);
await pick(page);
if (await page.getByText(/^Copy/).first().isVisible()) fault("without a script a button to copy does nothing");
await pay(session, "plain", "125000000");
await heading(page, "Payment complete");
await page.getByRole("link", { name: "Receipt" }).click();
await heading(page, "Receipt");
if (await page.getByText("Print", { exact: true }).isVisible()) fault("without a script a button to print does nothing");
console.log("works without a script");

if (expiring) {
  await expiring.page.getByRole("heading", { name: "This link has expired" }).waitFor({ timeout: 330_000 });
  await picture(expiring.page, "expired");
  await pay(expiring.session, "late", "125000000");
  await expiring.page.getByText(late).waitFor();
  await picture(expiring.page, "late");
  console.log("expired while it is open, and paid too late");
}

await browser.close();
console.log(faults.length === 0 ? "the live page is in order" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

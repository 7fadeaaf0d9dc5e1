// Currencies in the dashboard: two accounts, a test payment into one and, on a server that converts, a quote whose lock counts down
// and the conversion at its rate.
import { choose } from "./browser.mjs";

export async function currencies({ page, script, see, fill, press, open, told, reloadUntil, segment, narrow }) {
  await open("Currencies");
  await see("currencies-new");
  await press("Set up currencies");
  await told("Currencies are set up");
  for (const currency of ["EUR", "JPY"]) {
    await open("Currencies");
    await choose(page.getByLabel("Currency", { exact: true }), currency);
    await press("Open the account");
    await told(`${currency} account`);
    await reloadUntil("Active");
  }
  await open("Currencies");
  await page.getByRole("link", { name: "EUR", exact: true }).press("Enter");
  await page.getByLabel("Sender's reference").fill("<b>Invoice 7</b>");
  await press("Pay in");
  await told("The payment is on its way");
  await reloadUntil("Pay in");
  await reloadUntil("<b>Invoice 7</b>");
  await segment("Out");
  await told("Nothing matches.");
  await segment("In");
  await told("Payment received");
  await see("currency");
  if (await page.getByText("Conversion is not switched on.").count()) return;
  const form = page.locator("form", { has: page.getByRole("button", { name: "Get a quote" }) });
  await form.getByLabel("Amount", { exact: true }).fill("1.555");
  await press("Get a quote");
  await told("Amount must be a plain amount in EUR");
  await see("currency-refused", /status of 4\d\d/);
  await form.getByLabel("Amount", { exact: true }).fill("100");
  await press("Get a quote");
  await told("Locked until (UTC)");
  if (script) await page.getByText(/^\d+ s left$/).waitFor();
  await see("conversion-quote");
  await press(/^Convert /);
  await told("Ordered (UTC)");
  await reloadUntil("Completed");
  await see("conversion");
  await page.getByRole("link", { name: "Conversions", exact: true }).press("Enter");
  await narrow("State", {}, { State: "completed" });
  await told("EUR into JPY");
  await see("conversions");
  if (script) { // a lock ends while its page is open
    await open("Currencies");
    await page.getByRole("link", { name: "EUR", exact: true }).press("Enter");
    await form.getByLabel("Amount", { exact: true }).fill("1");
    await press("Get a quote");
    await told("Locked until (UTC)");
    await told("The lock has ended.");
    if (await page.getByRole("button", { name: /^Convert / }).count()) throw new Error("a quote without a lock can be ordered");
  }
  await open("Currencies");
  await see("currencies");
}

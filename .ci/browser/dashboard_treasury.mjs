// The pages of the dollars: the ledger with its filters, statements, payouts and recipients.
import { tries } from "./browser.mjs";

// treasury narrows the ledger by its address and saves a statement.
export async function treasury({ page, see, press, open, told, narrow, segment }) {
  await open("Dollars");
  await see("treasury");
  await narrow("Source", {}, { Source: "bank_deposit" });
  await page.waitForURL(/source=bank_deposit/);
  await page.getByRole("cell", { name: "Bank deposit" }).first().waitFor();
  await see("treasury-deposits");
  await segment("Out");
  await told("Nothing matches.");
  await see("treasury-none");
  const saved = page.waitForEvent("download");
  await press("Download");
  if (!(await saved).suggestedFilename().endsWith(".csv")) throw new Error("a statement is not a CSV file");
  await open("Dollars");
}

// abroad saves a recipient abroad, and orders two wires at firm rates: one that is cancelled, one that is released.
export async function abroad({ page, script, see, fill, press, confirm, open, told, narrow }) {
  await open("Recipients");
  await fill({ "Legal name": "Grace GmbH", BIC: "DEUTDEFF500", IBAN: "DE89370400440532013000", "Street and number": "Hauptstr. 5", City: "Berlin",
    "Postal code": "10115", Country: "DE" });
  await press("Save the recipient abroad");
  await told("Pay abroad");
  await see("recipient-abroad");
  const order = async (invoice) => {
    await fill({ "Amount that arrives": "25" });
    await press("Get a firm quote");
    await told("The rate is locked until");
    if (script) await told(/s left/);
    await see("payout-quote");
    await fill({ Description: invoice });
    await press("Order the wire");
    await told("Tracking reference");
  };
  const recipient = page.url();
  await order("Invoice 7");
  await see("payout-held");
  await confirm("Cancel");
  await told("The payout is cancelled.");
  await see("payout-cancelled");
  await page.goto(recipient);
  await order("Invoice 8");
  await confirm(/^Release/);
  await told("The payout is released.");
  // The page follows the wire by itself, with its state beside the amount. Without its script it is loaded again.
  const settled = page.locator("h1 .badge", { hasText: "Settled" });
  for (let i = 0; i < tries && !(await settled.count()); i++) { await page.waitForTimeout(500); if (!script) await page.reload(); }
  await settled.waitFor();
  await see("payout-released");
  await open("Recipients");
  await narrow("Name", { "Name begins with": "grace" });
  await page.waitForURL(/name=grace/);
  await see("recipients-filtered");
  await open("Payouts");
  await narrow("State", {}, { State: "cancelled" });
  await told("Invoice 7");
  await see("payouts-cancelled");
}

// Payment links in the dashboard: found by reference and by state, copied, and one cancelled after a question.
import { choose } from "./browser.mjs";

export async function links({ page, script, see, fill, press, confirm, open, told }) {
  await open("Checkout links");
  const form = page.locator("form", { has: page.getByRole("button", { name: "Create the link" }) });
  await form.getByLabel("Your reference").fill("order-<b>7</b>");
  await fill({ Amount: "12.00", For: "A second pot", "Address after the payment": "https://shop.example/thanks" });
  await press("Create the link");
  await told("The customer's page");
  if (script) {
    await press("Copy");
    await page.getByText(/Copied|Selected, ready to copy/).first().waitFor({ state: "attached" });
    await page.evaluate(() => getSelection().removeAllRanges());
  }
  await confirm("Cancel the link");
  await told("The link is cancelled.");
  await see("link-cancelled");
  const filters = page.locator("form.filters");
  await open("Checkout links");
  await filters.getByLabel("Your reference").fill("order-<b>7</b>");
  await choose(filters.getByLabel("State"), "expired");
  await press("Filter");
  await told("A second pot");
  await see("links-filtered");
  await choose(filters.getByLabel("State"), "completed");
  await press("Filter");
  await told("Nothing matches.");
}

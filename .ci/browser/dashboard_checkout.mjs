// Payment links in the dashboard: found by reference and by state, copied, and one cancelled after a question.

export async function links({ page, script, see, fill, press, confirm, open, told, narrow }) {
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
  await open("Checkout links");
  await narrow("Your reference", { "Your reference": "order-<b>7</b>" });
  await narrow("State", {}, { State: "expired" });
  await narrow("Amount", { "Amount from": "12", "Amount to": "12.00" });
  await page.waitForURL(/amountFromCents=1200&amountToCents=1200/);
  await told("A second pot");
  await see("links-filtered");
  await page.getByRole("link", { name: "Clear" }).press("Enter");
  await narrow("State", {}, { State: "failed" });
  await told("Nothing matches.");
}

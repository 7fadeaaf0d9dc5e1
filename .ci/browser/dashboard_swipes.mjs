// The pages of swipes: the list with its filters, and the life of one swipe.

// swipes filters the list, opens an approved swipe, and sends what the card network sends next.
export async function swipes({ page, see, press, open, told, narrow, segment }) {
  // A machine that stands still for a while makes the authorizer refuse a message, and the page says to press again.
  const send = async (button, text) => {
    const done = page.getByText(text), again = page.getByText("Press the button again");
    for (let i = 0; i < 10; i++) {
      await press(button);
      await done.or(again).first().waitFor();
      if (await done.count()) return;
      await page.waitForTimeout(1000);
    }
    await told(text);
  };
  await open("Swipes");
  await see("swipes");
  await segment("Declined");
  await page.waitForURL(/decision=declined/);
  await page.getByRole("cell", { name: "Over the limit per swipe" }).first().waitFor();
  await see("swipes-declined");
  await narrow("Merchant", { "Merchant begins with": "nobody" });
  await told("No swipe matches");
  await see("swipes-none");
  await open("Swipes");
  await segment("Approved");
  await page.waitForURL(/decision=approved/);
  await narrow("Amount", { "Amount from": "12.50" });
  await page.waitForURL(/amountFromCents=1250/);
  await page.getByRole("link", { name: "Cafe Aroma" }).first().press("Enter");
  await told("Simulate the card network");
  await see("swipe");
  await send("Increment", "The swipe is incremented.");
  await send("Clear a part", "A part of the swipe is cleared.");
  await see("swipe-cleared-in-part");
  await send("Clear all of it", "The swipe is cleared.");
  await send("Refund", "The swipe is refunded.");
  await see("swipe-refunded");
  await open("Swipes");
}

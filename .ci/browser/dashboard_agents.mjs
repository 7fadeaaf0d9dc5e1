// The pages of those who hold cards: agents, cardholders, physical cards, and the button of the lists that freezes.

// agents registers an agent with a key pair of the service, gives it a card, and freezes both from their lists.
export async function agents({ page, see, fill, press, confirm, open, told }) {
  await open("Agents");
  await told("No agents yet");
  await see("agents-none");
  await fill({ Name: "Tea <i>buyer</i>", Description: "Buys tea for the office" });
  await press("Register the agent");
  await told("Copy the private key now");
  await see("agent-secret");
  await page.getByRole("link", { name: "The agent" }).first().press("Enter");
  await told("Sign the first intent");
  await see("agent");
  await press("Create the card");
  await told("Swipe it");
  await open("Agents");
  await press("Freeze Tea <i>buyer</i>");
  await told("The agent is frozen");
  await see("agents");
  await page.getByRole("link", { name: "Tea <i>buyer</i>" }).press("Enter");
  await told("Sign the first intent");
  await see("agent-frozen");
  await confirm("Terminate");
  await told("The agent is terminated.");
  await open("Cards");
  await page.getByRole("button", { name: /^Freeze/ }).first().press("Enter");
  await told("The card is frozen");
  await see("cards");
}

// cardholders saves a person, with a refusal first, and orders a physical card.
export async function cardholders({ page, see, fill, press, open, told }) {
  await open("Cardholders");
  await fill({ "Name to show": "Grace", Street: "1 Main St" });
  await press("Save the cardholder");
  await page.getByRole("alert").waitFor();
  await see("cardholders-refused", /status of 4\d\d/);
  await fill({ City: "Oakland", "State or region": "CA", "Postal code": "94607", Country: "US" });
  await press("Save the cardholder");
  await told("The cardholder is saved.");
  await see("cardholders");
  await open("Cards");
  await page.getByRole("link", { name: "Physical cards" }).press("Enter");
  await fill({ Label: "Ada", Street: "1 Main St", City: "Oakland", "State or region": "CA", "Postal code": "94607", Country: "US" });
  await press("Order the card");
  await told("The card is ordered.");
  await see("physical-cards");
}

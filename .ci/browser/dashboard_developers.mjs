// The pages of developers: webhook endpoints with their deliveries, and the log of requests.
import { tick } from "./browser.mjs";

// webhooks makes an endpoint, copies its secret, sends an example, reads why it fails, and deletes the endpoint.
export async function webhooks({ page, see, fill, press, confirm, open, told, segment, reloadUntil }) {
  await open("Webhooks");
  await told("No endpoints yet");
  await fill({ URL: "http://shop.example/hook" });
  await tick(page.getByRole("checkbox").first());
  await press("Create the endpoint");
  await page.getByRole("alert").waitFor();
  await see("webhooks-refused", /status of 4\d\d/);
  await fill({ URL: "https://93.184.216.34/purser?token=of-the-receiver" });
  await press("Create the endpoint");
  await told("Copy the signing secret now");
  await see("webhook-secret");
  await open("Webhooks");
  await see("webhooks");
  await page.getByRole("link", { name: /93\.184/ }).first().press("Enter");
  await press("Send an example");
  await told("The JSON that is posted");
  await reloadUntil("gives up by");
  await see("webhook-delivery");
  await page.getByRole("link", { name: "The endpoint" }).press("Enter");
  await told("Deliveries, newest first");
  await see("webhook");
  await segment("Delivered");
  await told("Nothing matches.");
  await confirm("Delete the endpoint");
  await told("No endpoints yet");
}

// requests looks through the log of requests, narrows it, and reads why a wrong filter is refused.
export async function requests({ page, see, open, told, segment, narrow }) {
  await open("Request log");
  await told("Request id");
  await see("requests");
  await segment("4xx, refused");
  await page.waitForURL(/status=4xx/);
  await see("requests-refused");
  await narrow("Route", { "Route begins with": "/api/webhooks" });
  await page.waitForURL(/status=4xx.*route|route.*status=4xx/);
  await told("POST /api/webhooks/endpoints");
  await narrow("Request id", { "Request id": "none" });
  await told("Nothing matches.");
  await page.goto(page.url().replace("4xx", "maybe"));
  await told("Status must be a number");
  await see("requests-wrong-filter", /status of 400/);
}

// From sign-up to a webhook, with the client that openapi-generator makes for fetch.
import assert from "node:assert/strict";
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import * as purser from "./client/index.js";

const { API_URL: api, NETWORK_URL: network, NETWORK_SECRET: networkSecret } = process.env;
const milliseconds = 30_000;

async function until<T>(read: () => Promise<T>, done: (answer: T) => boolean): Promise<T> {
  for (const end = Date.now() + milliseconds; ;) {
    const answer = await read();
    if (done(answer)) return answer;
    assert(Date.now() < end, JSON.stringify(answer));
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

async function refusal(call: Promise<unknown>, status: number): Promise<purser.ApiError> {
  const refused = await call.then(() => assert.fail(`no refusal with the status ${status}`), (error: unknown) => error);
  assert(refused instanceof purser.ResponseError, String(refused));
  assert.equal(refused.response.status, status);
  return purser.ApiErrorFromJSON(await refused.response.json());
}

// A receiver of webhooks.
let deliver: (delivery: { headers: IncomingHttpHeaders, body: string }) => void;
const delivered = new Promise<{ headers: IncomingHttpHeaders, body: string }>((resolve) => { deliver = resolve; });
const receiver = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (piece) => { body += piece; }).on("end", () => {
    response.writeHead(204).end();
    deliver({ headers: request.headers, body });
  });
});
await new Promise<void>((listening) => receiver.listen(0, "127.0.0.1", listening));

// A person. Outside of a browser the session is a header of the program's own.
const email = `ts-${randomUUID()}@example.com`;
const signedUp = await new purser.DashboardApi(new purser.Configuration({ basePath: api }))
  .signupRaw({ credentials: { email, password: "correct horse battery" } });
assert.equal((await signedUp.value()).user.email, email);
const cookie = signedUp.raw.headers.getSetCookie()[0].split(";")[0];
const person = new purser.Configuration({ basePath: api, headers: { Cookie: cookie } });
await new purser.WorkspacesApi(person).createWorkspace({ newWorkspace: { name: "TypeScript Ltd" } });
assert.equal((await new purser.CurrenciesApi(person).startCurrencyOnboarding()).kybStatus, "approved");
const { secret: signing } = await new purser.WebhooksApi(person).createWebhookEndpoint({ newWebhookEndpoint: {
  url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/events`, events: new Set(["checkout.session.completed"] as const) } });
const { secret } = await new purser.KeysApi(person).createKey({ newApiKey: { label: "flow", scopes: ["read:treasury",
  "write:treasury", "write:counterparties", "write:payouts", "read:cards", "write:cards", "write:checkout"] } });
const key = new purser.Configuration({ basePath: api, accessToken: secret });
const [treasury, cards, checkout] = [new purser.TreasuryApi(key), new purser.CardsApi(key), new purser.CheckoutApi(key)];

// Money in, and a card that spends it.
await treasury.createDeposit({ idempotencyKey: randomUUID(), newDeposit: { source: "bank_fiat", rail: "fednow", amountUsdCents: 100_000 } });
await until(async () => (await treasury.getTreasury()).balances[0].availableCents, (cents) => cents === 100_000);
const { card } = await cards.mintCard({ newCard: { holderKind: "agent", holderLabel: "flow", monthlyLimitUsdCents: 50_000,
  perTxnLimitUsdCents: 20_000, allowedMccs: ["5812"] } });
const swipe = await fetch(`${network}/v1/authorizations`, { method: "POST",
  headers: { Authorization: `Bearer ${networkSecret}`, "Content-Type": "application/json" },
  body: JSON.stringify({ id: randomUUID(), cardToken: card.partnerCardToken, amountCents: 1250, currency: "USD",
    merchant: { name: "Cafe Aroma", mcc: "5812" } }) });
assert.equal((await swipe.json()).decision, "approved");
const [seen] = await until(async () => (await cards.listAuthorizations({ cardId: card.id })).data, (list) => list.length > 0);
assert.equal(seen.heldCents, 1250);
assert.equal(seen.checked?.limitCents, 50_000);

// Money out.
const { counterparty } = await treasury.createCounterparty({ idempotencyKey: randomUUID(), newCounterparty: {
  kind: "us", name: "Bob", routingNumber: "021000021", accountNumber: "12345678", accountType: "checking" } });
const order: purser.NewPayout = { rail: "ach", counterpartyId: counterparty.id, amountCents: 2_000, description: "Rent" };
const { payout } = await treasury.createPayout({ idempotencyKey: randomUUID(), newPayout: order });
await until(async () => (await treasury.getPayout({ id: payout.id })).payout.status, (status) => status === "settled");

// A paid link, and the webhook that tells of it.
const { session } = await checkout.createCheckoutSession({ newCheckoutSession: { amountUsdCents: 1_000,
  successUrl: "https://example.com/thanks" } });
await checkout.selectCheckoutPair({ id: session.id, checkoutPick: { asset: "USDC", chain: "base" } });
await checkout.simulateCheckoutPayment({ id: session.id });
const { headers, body } = await delivered;
const parts = new Map(String(headers["service-signature"]).split(",").map((part) => part.split("=", 2) as [string, string]));
const signed = createHmac("sha256", signing).update(`${parts.get("t")}.${body}`).digest();
assert(timingSafeEqual(signed, Buffer.from(String(parts.get("v1")), "hex")), "the signature of the webhook");
assert.equal(headers["webhook-event"], "checkout.session.completed");
assert.equal(JSON.parse(body).id, session.id);

// Refusals are read as the type ApiError.
const tooMuch = { ...order, amountCents: 90_000_000 };
assert.equal((await refusal(treasury.createPayout({ idempotencyKey: randomUUID(), newPayout: tooMuch }), 422)).error, "limit_exceeded");
assert.equal((await refusal(cards.getCard({ id: "card_00000000000000000000000000" }), 404)).error, "not_found");
receiver.close();
console.log("openapi-generator, typescript-fetch: sign-up, swipe, payout, webhook and refusals");

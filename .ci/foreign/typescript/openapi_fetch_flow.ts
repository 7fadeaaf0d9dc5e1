// From sign-up to a paid link, with openapi-fetch and the types that openapi-typescript makes.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const { API_URL: baseUrl, NETWORK_URL: network, NETWORK_SECRET: networkSecret } = process.env;
const milliseconds = 30_000;

type Refusal = components["schemas"]["ApiError"];
type Answer<T> = { data?: T, error?: unknown, response: Response };

async function ok<T>(call: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await call;
  assert(data !== undefined, `${response.url}: ${JSON.stringify(error)}`);
  return data;
}

async function until<T>(read: () => Promise<T>, done: (answer: T) => boolean): Promise<T> {
  for (const end = Date.now() + milliseconds; ;) {
    const answer = await read();
    if (done(answer)) return answer;
    assert(Date.now() < end, JSON.stringify(answer));
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

// A person.
const email = `of-${randomUUID()}@example.com`;
const signedUp = await createClient<paths>({ baseUrl }).POST("/api/dashboard/signup",
  { body: { email, password: "correct horse battery" } });
assert.equal(signedUp.data?.user.email, email);
const Cookie = signedUp.response.headers.getSetCookie()[0].split(";")[0];
const person = createClient<paths>({ baseUrl, headers: { Cookie } });
await ok(person.POST("/api/workspaces", { body: { name: "Fetch Ltd" } }));
const { secret } = await ok(person.POST("/api/auth/keys", { body: { label: "flow", scopes: ["read:treasury", "write:treasury",
  "write:counterparties", "write:payouts", "read:cards", "write:cards", "write:checkout"] } }));
const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${secret}` } });
const keyed = () => ({ header: { "Idempotency-Key": randomUUID() } });

// Money in, and a card that spends it.
await ok(api.POST("/api/treasury/deposits", { params: keyed(), body: { source: "bank_fiat", rail: "fednow", amountUsdCents: 100_000 } }));
await until(async () => (await ok(api.GET("/api/treasury"))).balances[0].availableCents, (cents) => cents === 100_000);
const { card } = await ok(api.POST("/api/cards", { body: { holderKind: "agent", holderLabel: "flow", monthlyLimitUsdCents: 50_000,
  perTxnLimitUsdCents: 20_000, allowedMccs: null } }));
const swipe = await fetch(`${network}/v1/authorizations`, { method: "POST",
  headers: { Authorization: `Bearer ${networkSecret}`, "Content-Type": "application/json" },
  body: JSON.stringify({ id: randomUUID(), cardToken: card.partnerCardToken, amountCents: 1250, currency: "USD",
    merchant: { name: "Cafe Aroma", mcc: "5812" } }) });
assert.equal((await swipe.json()).decision, "approved");
await until(async () => (await ok(api.GET("/api/authorizations", { params: { query: { cardId: card.id } } }))).data, (list) => list.length > 0);

// Money out.
const { counterparty } = await ok(api.POST("/api/treasury/counterparties", { params: keyed(), body: {
  kind: "us", name: "Bob", routingNumber: "021000021", accountNumber: "12345678", accountType: "checking" } }));
const body: components["schemas"]["NewPayout"] = { rail: "ach", counterpartyId: counterparty.id, amountCents: 2_000, description: "Rent" };
const { payout } = await ok(api.POST("/api/treasury/payouts", { params: keyed(), body }));
const path = { id: payout.id };
await until(async () => (await ok(api.GET("/api/treasury/payouts/{id}", { params: { path } }))).payout.status, (status) => status === "settled");

// A paid link.
const { session } = await ok(api.POST("/api/v1/checkout/sessions", { body: { amountUsdCents: 1_000, successUrl: "https://example.com/thanks" } }));
const link = { params: { path: { id: session.id } } };
await ok(api.POST("/api/v1/checkout/sessions/{id}/select", { ...link, body: { asset: "USDC", chain: "base" } }));
await ok(api.POST("/api/v1/checkout/sessions/{id}/simulate", link));
await until(async () => (await ok(api.GET("/api/v1/checkout/sessions/{id}/status", link))).status, (status) => status === "completed");

// Refusals are the type ApiError.
const { error, response } = await api.POST("/api/treasury/payouts", { params: keyed(), body: { ...body, amountCents: 90_000_000 } });
const refusal: Refusal | undefined = error;
assert.deepEqual([response.status, refusal?.error], [422, "limit_exceeded"]);
console.log("openapi-typescript, openapi-fetch: sign-up, swipe, payout, link and a refusal");

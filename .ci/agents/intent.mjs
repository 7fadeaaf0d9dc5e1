// Signs a payment intent and submits it: node intent.mjs <url> <api key> <agent id> <private key file> <intent id>
import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { readFileSync } from "node:fs";

const [url, apiKey, agentId, keyFile, intentId] = process.argv.slice(2);
const key = createPrivateKey(readFileSync(keyFile));
const spki = createPublicKey(key).export({ type: "spki", format: "der" });
// RFC 8785: JavaScript writes numbers and strings as it asks; the names are left to sort.
const canonical = (v) => Array.isArray(v) ? `[${v.map(canonical)}]` : v === null || typeof v !== "object" ? JSON.stringify(v)
  : `{${Object.keys(v).sort().map((k) => `${JSON.stringify(k)}:${canonical(v[k])}`)}}`;

const now = Math.floor(Date.now() / 1000);
const intent = { agent_id: agentId, intent_id: intentId, iat: now, exp: now + 300, protocol: "TAP",
  merchant: { name: "Bücher & Söhne", mcc: "5942" }, amount: { currency: "USD", cents: 1999 } };
const body = { intent, signature: sign(null, Buffer.from(canonical(intent)), key).toString("base64url"),
  key_id: createHash("sha256").update(spki).digest("base64url") };

const answer = await fetch(`${url}/api/agents/${agentId}/intents`, { method: "POST", body: JSON.stringify(body),
  headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" } });
console.log(await answer.text());
process.exitCode = answer.ok ? 0 : 1;

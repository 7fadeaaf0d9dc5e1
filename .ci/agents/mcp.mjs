// Speaks to /api/mcp with the official TypeScript SDK: node mcp.mjs <url> <api key with write:api_keys and all read scopes it hands out>
// It connects, lists, calls and pings, and sees each error code that a request from outside can cause.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, ownerKey] = process.argv.slice(2);

async function newKey(scopes) {
  const answer = await fetch(`${url}/api/auth/keys`, { method: "POST", body: JSON.stringify({ label: "mcp client", scopes }),
    headers: { Authorization: `Bearer ${ownerKey}`, "Content-Type": "application/json" } });
  assert.equal(answer.status, 200, await answer.clone().text());
  return (await answer.json()).secret;
}

// connect makes a client whose messages may be changed on their way out.
async function connect(key, mangle = (body) => body) {
  const client = new Client({ name: "ci", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/api/mcp`), {
    requestInit: { headers: { Authorization: `Bearer ${key}` } },
    fetch: (to, init) => fetch(to, init?.body ? { ...init, body: mangle(init.body) } : init),
  }));
  return client;
}

const fails = (promise, code) => assert.rejects(promise, (e) => e.code === code || String(e.message).includes(`"code":${code},`),
  `expected ${code}`);
const result = { parse: (v) => v, safeParse: (v) => ({ success: true, data: v }) }; // of a method that is not there

const key = await newKey(["read:treasury", "read:cards", "read:agents", "read:checkout"]);
const client = await connect(key);
assert.equal(client.getServerVersion().name, "purser");
assert.deepEqual(client.getServerCapabilities(), { tools: {} });
await client.ping();

const { tools } = await client.listTools();
assert.ok(tools.length >= 12, `${tools.length} tools`);
for (const tool of tools) assert.equal(tool.inputSchema.type, "object", tool.name);

const { content, structuredContent } = await client.callTool({ name: "list_cards", arguments: { limit: 1 } });
const read = await fetch(`${url}/api/cards?limit=1`, { headers: { Authorization: `Bearer ${key}` } });
assert.equal(content[0].text, await read.text());
const { data: [newest], nextCursor: cursor } = JSON.parse(content[0].text);
const next = await client.callTool({ name: "list_cards", arguments: { limit: 1, cursor } });
assert.notEqual(JSON.parse(next.content[0].text).data[0].id, newest.id);

assert.deepEqual(structuredContent, JSON.parse(content[0].text));
await fails(client.callTool({ name: "list_everything" }), -32602);
await fails(client.request({ method: "resources/everything" }, result), -32601);
for (const args of [{}, { cardId: "card_unknown" }]) {
  assert.ok((await client.callTool({ name: "get_card", arguments: args })).isError, JSON.stringify(args));
}

const narrow = await connect(await newKey(["read:cards"]));
assert.ok((await narrow.listTools()).tools.every((tool) => !tool.name.includes("treasury")));
await fails(narrow.callTool({ name: "get_treasury" }), -32001);
await fails(connect("apk_nonsense"), -32001);

let spoil = (body) => body;
const broken = await connect(key, (body) => spoil(body));
spoil = (body) => body.slice(1);
await fails(broken.ping(), -32700);
spoil = (body) => body.replace('"2.0"', '"1.0"');
await fails(broken.ping(), -32600);

for (const c of [client, narrow, broken]) await c.close();
console.log(`the TypeScript SDK lists ${tools.length} tools and sees each error code`);

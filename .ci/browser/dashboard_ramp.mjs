// The ramp in the dashboard: dollars into USDC at a quote that counts down, two wallets, and USDC to the one that is proven. With
// scripts the browser has wallets of its own: a Solana wallet that signs, and an Ethereum provider that signs wrongly and refuses.
import { choose } from "./browser.mjs";
import { generateKeyPairSync, sign } from "node:crypto";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const account = base58(Buffer.from(publicKey.export({ format: "jwk" }).x, "base64url"));
const signature = (text) => sign(null, Buffer.from(text), privateKey);
const evmAccount = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

export async function ramp({ page, script, see, fill, press, confirm, open, told, reloadUntil, segment }) {
  const asked = [];
  await page.exposeFunction("signWithTestKey", (bytes) => [...signature(Buffer.from(bytes))]);
  await page.exposeFunction("askTestProvider", (request) => {
    asked.push(request);
    if (request.method === "eth_requestAccounts") return [evmAccount.toLowerCase()];
    if (asked.length > 2) throw new Error("User rejected the request.");
    return `0x${"5b".repeat(32)}${"2a".repeat(32)}1b`;
  });
  await page.addInitScript((address) => {
    window.ethereum = { request: (request) => window.askTestProvider(request) };
    window.solana = {
      connect: async () => ({ publicKey: { toString: () => address } }),
      signMessage: async (bytes) => ({ signature: new Uint8Array(await window.signWithTestKey([...bytes])) }),
    };
  }, account);
  const addWallet = async (chain, address, label) => {
    await open("Ramp");
    await page.getByRole("main").getByRole("link", { name: /^\d+$/ }).first().press("Enter");
    await choose(page.getByLabel("Network"), chain);
    await fill({ Address: address, Label: label });
    await press("Add the wallet");
    await told("Prove that it is yours");
  };

  await open("Ramp");
  await see("ramp-new");
  await press("Link the account");
  await reloadUntil("Change dollars and USDC");
  await fill({ Amount: "100" });
  await press("Get a quote");
  await told("Locked until (UTC)");
  if (script) await page.getByText(/^\d+ s left$/).waitFor();
  await see("ramp-quote");
  await press("Order");
  await told("Life");
  await reloadUntil("Completed");
  await see("ramp-order");

  await addWallet("base", evmAccount, "<i>Cold</i>");
  await see("wallet-evm");
  if (script) {
    const challenge = await page.locator("#challenge").innerText();
    await press("Sign with the browser's wallet");
    await page.getByRole("alert").getByText(/not signed|signature/i).first().waitFor();
    const [, { method, params }] = asked;
    if (method !== "personal_sign" || Buffer.from(params[0].slice(2), "hex").toString() !== challenge || params[1] !== evmAccount)
      throw new Error(`the provider was asked for ${method} of ${params}`);
    await see("wallet-refused", /status of 4\d\d/);
    await press("Sign with the browser's wallet");
    await told("User rejected the request.");
    await see("wallet-rejected");
  } else {
    await fill({ Signature: "0x00" });
    await press("Send the signature");
    await page.getByRole("alert").waitFor();
    await see("wallet-refused");
  }
  await addWallet("solana", account, "Hot");
  if (script) await press("Sign with the browser's wallet");
  else {
    await fill({ Signature: base58(signature(await page.locator("#challenge").innerText())) });
    await press("Send the signature");
  }
  await told("The wallet is proven.");
  await reloadUntil("Approved");
  await see("wallet");
  await page.getByRole("link", { name: "Wallets" }).press("Enter");
  await see("wallets");
  await open("Ramp");
  const form = page.locator("form", { has: page.getByRole("button", { name: "Quote the withdrawal" }) });
  await form.getByLabel("Amount").fill("25.00");
  await press("Quote the withdrawal");
  await told("Locked until (UTC)");
  await confirm("Withdraw");
  await told("Life");
  await reloadUntil("Completed");
  await see("withdrawal");
  await open("Ramp");
  await segment("USDC to a wallet");
  await page.waitForURL(/direction=withdraw/);
  await told("$25.00");
  await see("ramp");
}

function base58(raw) {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let number = [...raw].reduce((sum, byte) => sum * 256n + BigInt(byte), 0n), text = "";
  for (; number > 0n; number /= 58n) text = digits[Number(number % 58n)] + text;
  for (const byte of raw) { if (byte !== 0) break; text = `1${text}`; }
  return text;
}

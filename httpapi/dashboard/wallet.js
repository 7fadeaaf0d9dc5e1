// The browser's own wallet signs the challenge of a wallet's page: personal_sign of an Ethereum provider (EIP-1193, found as
// window.ethereum or by EIP-6963), or signMessage of a Solana wallet (window.solana or the Wallet Standard). The script sends the
// signature with the form, and the server verifies it.
const button = document.querySelector("[data-wallet]");
const problem = document.querySelector("[data-wallet-problem]");
const { wallet: kind, address, challenge } = button.dataset;
const bytes = new TextEncoder().encode(challenge);
const providers = [], standard = [];

const ethereum = () => window.ethereum ?? providers[0];
const solana = () => window.solana ?? standard.find((wallet) => wallet.features["solana:signMessage"]);
const wallet = kind === "solana" ? solana : ethereum;
const show = () => { button.hidden = !wallet(); };

async function signOnEthereum(provider) {
  const accounts = await provider.request({ method: "eth_requestAccounts" });
  if (!accounts.some((account) => account.toLowerCase() === address.toLowerCase())) throw new Error(otherAccount);
  const message = `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  return provider.request({ method: "personal_sign", params: [message, address] });
}

async function signOnSolana(provider) {
  if (provider.signMessage) {
    const connected = await provider.connect();
    if (String(connected?.publicKey ?? provider.publicKey) !== address) throw new Error(otherAccount);
    const signed = await provider.signMessage(bytes, "utf8");
    return base58(signed.signature ?? signed);
  }
  const { accounts } = await provider.features["standard:connect"].connect();
  const account = accounts.find((found) => found.address === address);
  if (!account) throw new Error(otherAccount);
  const [signed] = await provider.features["solana:signMessage"].signMessage({ account, message: bytes });
  return base58(signed.signature);
}

const otherAccount = `The browser's wallet does not offer the account ${address}.`;

function base58(raw) {
  const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let number = [...raw].reduce((sum, byte) => sum * 256n + BigInt(byte), 0n), text = "";
  for (; number > 0n; number /= 58n) text = digits[Number(number % 58n)] + text;
  for (const byte of raw) { if (byte !== 0) break; text = `1${text}`; }
  return text;
}

button.addEventListener("click", async () => {
  problem.hidden = true;
  button.disabled = true;
  try {
    button.form.elements.signature.value = await (kind === "solana" ? signOnSolana : signOnEthereum)(wallet());
    button.form.requestSubmit();
  } catch (failed) {
    problem.textContent = `The wallet has not signed: ${failed?.message ?? failed}`;
    problem.hidden = false;
  }
  button.disabled = false;
});

window.addEventListener("eip6963:announceProvider", (event) => { providers.push(event.detail.provider); show(); });
window.dispatchEvent(new Event("eip6963:requestProvider"));
const app = Object.freeze({ register: (...wallets) => { standard.push(...wallets); show(); return () => {}; } });
window.addEventListener("wallet-standard:register-wallet", (event) => event.detail(app));
window.dispatchEvent(new CustomEvent("wallet-standard:app-ready", { detail: app }));
window.addEventListener("ethereum#initialized", show);
show();

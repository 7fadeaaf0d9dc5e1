// The pages of a person's account and of the team.
import { createHmac } from "node:crypto";
import { enter } from "./browser.mjs";

// forgotten asks for a link on a server that sends no mail, and opens a link that is no longer good.
export async function forgotten({ page, see, fill, press, told }, base) {
  await page.getByRole("link", { name: "Reset it" }).press("Enter");
  await told("This server sends no mail");
  await see("forgot");
  await page.goto(`${base}/dashboard/reset?token=reset_0`);
  await fill({ "New password": "correct horse battery" });
  await see("reset");
  await press("Set the password");
  await told("Token is unknown, used or expired");
  await see("reset-refused", /status of 4\d\d/);
}

// sessions ends the sessions of other browsers, from the page of the account. A live page of one of them then asks to sign in.
export async function sessions({ page, see, confirm, told }, base, email) {
  const other = await page.context().browser().newContext();
  const elsewhere = await other.newPage();
  await elsewhere.goto(`${base}/dashboard/sign-in`);
  await elsewhere.getByLabel("Email", { exact: true }).fill(email);
  await elsewhere.getByLabel("Password", { exact: true }).fill("correct horse battery");
  await elsewhere.getByRole("button", { name: "Sign in", exact: true }).press("Enter");
  await elsewhere.locator("main[data-live]").waitFor();
  await page.goto(`${base}/dashboard/account`);
  await see("account");
  await page.getByRole("link", { name: "Another" }).first().press("Enter");
  await see("session");
  await confirm("End the session");
  await told("The sessions have ended.");
  await elsewhere.waitForURL(/sign-in/);
  await other.close();
}

// team invites a person and withdraws the invitation, then invites another, who joins, and removes that one.
export async function team({ page, variant, see, fill, press, confirm, told, open }) {
  await open("Members");
  await see("team");
  await fill({ Email: "bob@example.com" });
  await press("Invite the person");
  await told("Pass the link on now");
  await see("invited");
  const link = await page.locator("#link").innerText();
  await page.getByRole("link", { name: "Members" }).first().press("Enter");
  await page.getByRole("link", { name: "bob@example.com" }).press("Enter");
  await see("invitation-sent");
  await confirm("Withdraw the invitation");
  await told("No invitation waits for an answer");
  const back = page.url();
  await page.goto(new URL(new URL(link).pathname + new URL(link).search, back).href);
  await told("token is unknown, used, withdrawn");
  await see("invitation");
  await fill({ Token: "invite_0" });
  await press("Show the invitation");
  await page.getByRole("alert").waitFor();
  await see("invitation-refused", /status of 4\d\d/);
  await page.goto(back);
  const joining = `cyd-${variant}@example.com`;
  await open("Members");
  await fill({ Email: joining });
  await press("Invite the person");
  await told("Pass the link on now");
  await join(page, joining, new URL(new URL(await page.locator("#link").innerText()).pathname + "?" + (await page.locator("#link").innerText()).split("?")[1], back).href);
  await open("Members");
  await page.getByRole("link", { name: joining }).press("Enter");
  await see("member");
  await confirm("Remove from the workspace", false); // the question counts what the form keeps
  await told("No invitation waits for an answer");
  await page.getByRole("link", { name: `ada-${variant}` }).press("Enter");
  await page.getByRole("link", { name: "Leave" }).press("Enter");
  await see("leave");
  await confirm("Leave the workspace");
  await told("last owner");
  await see("leave-refused", /status of 4\d\d/);
  await page.goto(back);
}

// join signs an invited person up in a browser of their own and accepts the invitation of a link.
async function join(page, email, link) {
  const context = await page.context().browser().newContext();
  const invited = await context.newPage();
  await invited.goto(link);
  await invited.getByRole("link", { name: "Create an account" }).press("Enter");
  await invited.getByLabel("Email", { exact: true }).fill(email);
  await invited.getByLabel("Password", { exact: true }).fill("correct horse battery");
  await invited.getByRole("button", { name: "Create the account", exact: true }).press("Enter");
  await invited.getByRole("button", { name: "Join the workspace", exact: true }).press("Enter");
  await invited.locator("main[data-live]").waitFor();
  await context.close();
}

// settings renames the workspace, after a name that is too short.
export async function settings({ page, see, fill, press, told, open }) {
  await open("Settings");
  await see("settings");
  await fill({ Name: "A" });
  await press("Rename");
  await page.getByRole("alert").waitFor();
  await see("settings-refused", /status of 4\d\d/);
  await fill({ Name: "Ada's renamed" });
  await press("Rename");
  await told("The workspace has its new name");
  await see("settings-renamed");
}

// email changes the email of the account and back. The server sends no mail, so each change is at once.
export async function email({ page, see, fill, press, told }, base, present) {
  const password = "correct horse battery";
  await page.goto(`${base}/dashboard/account`);
  await change(`new-${present}`, "wrong horse battery");
  await page.getByRole("alert").waitFor();
  await see("email-refused", /status of 4\d\d/);
  await change(`new-${present}`, password);
  await told("The email is changed");
  await told(`new-${present}`);
  await see("email-changed");
  await page.goto(`${base}/dashboard/account/email?token=email_0`);
  await see("email-link");
  await press("Confirm the new email");
  await told("Token is unknown, used, expired");
  await see("email-link-refused", /status of 4\d\d/);
  await press("Sign out");
  await fill({ Email: `new-${present}`, Password: password });
  await press("Sign in");
  await page.locator("main[data-live]").waitFor();

  // change sends the form. Its password is the page's second field of that name.
  async function change(to, current) {
    await fill({ "New email": to });
    await enter(page.getByLabel("Current password", { exact: true }).last(), current);
    await press("Change the email");
  }
}

// codeOf is the code of RFC 6238 of a base32 secret, some steps from now.
function codeOf(secret, steps) {
  const bits = [...secret].map((c) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(c).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const mac = createHmac("sha1", key).update(counter).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

// secondFactor turns a second factor on from the page of the account, signs in with a code, and turns it off.
export async function secondFactor({ page, script, see, fill, press, confirm, told }, base, email) {
  const password = "correct horse battery";
  await page.goto(`${base}/dashboard/account/second-factor`);
  await see("second-factor");
  await fill({ Password: password });
  await press("Show the secret");
  await told("Add the secret to your authenticator");
  await see("second-factor-secret");
  const secret = await page.locator("#secret").innerText();
  await fill({ Code: codeOf(secret, 0) });
  await press("Turn it on");
  await told("Keep these codes now");
  await see("recovery-codes");
  await press("Sign out");
  await fill({ Email: email, Password: password });
  await press("Sign in");
  await told("Six digits of your authenticator");
  await fill({ Code: "1" });
  await press("Sign in");
  await told("is wrong, or was used before");
  await see("code-refused", /status of 4\d\d/);
  await fill({ Code: codeOf(secret, 1) });
  await press("Sign in");
  await page.locator("main[data-live]").waitFor();
  await page.goto(`${base}/dashboard/account/second-factor`);
  await see("second-factor-on");
  await fill({ Password: password });
  await (script ? confirm : press)("Turn it off"); // a password is an answer: no page asks again
  await told("The second factor is off");
}

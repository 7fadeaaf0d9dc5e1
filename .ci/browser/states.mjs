// Looks at one page of each state in a real browser: phone and desktop, light and dark. Fails on anything axe-core finds serious, on a word
// in the console (the policy would be one), and on a page that is wider than its window. usage: states.mjs <pages> <screenshots>
import { createServer } from "node:http";
import { readFileSync, readdirSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, judge, faults, some, within } from "./browser.mjs";

const [pages, shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });
const policy = readFileSync(join(pages, "policy"), "utf8");
const types = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8", svg: "image/svg+xml",
  ico: "image/x-icon" };
const server = createServer((request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  if (path.endsWith("/events")) { // a stream that says nothing
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("retry: 60000\n\n");
    return;
  }
  try {
    const content = readFileSync(join(pages, path));
    response.writeHead(200, { "Content-Type": types[path.split(".").pop()], "Content-Security-Policy": policy });
    response.end(content);
  } catch {
    response.writeHead(404);
    response.end();
  }
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const base = `http://127.0.0.1:${server.address().port}`;
const browser = await launch();
for (const file of readdirSync(pages).filter((name) => name.endsWith(".html")).sort()) {
  for (const [width, colorScheme] of some([[390, "light"], [390, "dark"], [1280, "light"], [1280, "dark"]], 0)) {
    const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme });
    const page = await context.newPage();
    page.setDefaultTimeout(within);
    const name = `${file.replace(".html", "")}-${width}-${colorScheme}`;
    await judge(page, name, () => page.goto(`${base}/${file}`), join(shots, `${name}.png`));
    await context.close();
  }
}
await browser.close();
server.closeAllConnections();
server.close();
console.log(faults.length === 0 ? "every state is in order" : `${faults.length} faults`);
process.exit(faults.length === 0 ? 0 : 1);

// Adds an API key to each request, which the conformance suite cannot: node mcp_proxy.mjs <port> <url> <key>
import http from "node:http";

const [port, url, key] = process.argv.slice(2);

http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${key}` };
  const passed = http.request(url + request.url, { method: request.method, headers, setHost: false }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  passed.on("error", () => response.destroy());
  request.pipe(passed);
}).listen(Number(port), "127.0.0.1");

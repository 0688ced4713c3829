// Node's own server, which answers as `servers.py` beside this says.
const server = require("node:http").createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const url = new URL(request.url, "http://x");
    const count = Number(url.search.slice(1));
    let body = Buffer.concat(pieces);
    if (url.pathname === "/sse") {
      for (let number = 0; number < count; number++) response.write(`data: ${number}\n\n`);
      return response.end();
    }
    if (url.pathname === "/none") return response.writeHead(204).end();
    if (url.pathname === "/cut") {
      response.writeHead(200, { "content-length": "100" });
      return response.write(body, () => request.socket.destroy());
    }
    if (url.pathname === "/big") body = Buffer.alloc(count);
    if (url.pathname === "/last") response.setHeader("connection", "close");
    response.setHeader("content-length", body.length);
    response.end(body);
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();

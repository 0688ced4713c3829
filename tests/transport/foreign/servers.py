"""Servers from other projects, each as a program: `python servers.py uvicorn-h11`.

The program listens on loopback, prints its port, and exits when its standard input ends. All
servers respond alike:

- `/echo`: the request's body, with its length
- `/sse`: the number of events given in the query, in chunks
- `/big`: the number of bytes given in the query
- `/none`: 204
- `/last`: a response that closes the connection
- `/cut`: a body shorter than its `content-length`, then the end of the connection
"""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

Message = MutableMapping[str, object]


def listening() -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(100)
    sock.setblocking(False)
    return sock


def ready(port: int) -> None:
    """Print the port; from now on, exit when the standard input ends."""
    print(port, flush=True)  # noqa: T201 - the parent process reads it

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def events(count: int) -> Iterator[bytes]:
    return (b"data: %d\n\n" % number for number in range(count))


# --- the standard library -------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        content = self._content()
        if path == "/sse":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in events(int(query)):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")
            return
        if path == "/none":
            self.send_response(204)
            self.end_headers()
            return
        body = bytes(int(query)) if path == "/big" else content
        self.send_response(200)
        self.send_header("content-length", "100" if path == "/cut" else str(len(body)))
        if path == "/last":
            self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if path == "/cut":
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST  # noqa: N815

    def _content(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named as in the base class
        pass


def stdlib() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready(server.server_address[1])
    server.serve_forever()


# --- ASGI -----------------------------------------------------------------------------------------


async def app(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        return
    content = b""
    more = True
    while more:
        message = await receive()
        content += cast("bytes", message.get("body", b""))
        more = bool(message.get("more_body"))

    async def start(status: int, *headers: tuple[bytes, bytes]) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def body(data: bytes, *, more: bool = False) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": more})

    query = cast("bytes", scope["query_string"])
    match scope["path"]:
        case "/sse":
            await start(200)
            for event in events(int(query)):
                await body(event, more=True)
            await body(b"")
        case "/big":
            await start(200, (b"content-length", query))
            await body(bytes(int(query)))
        case "/none":
            await start(204)
            await body(b"")
        case "/cut":
            await start(200, (b"content-length", b"100"))
            await body(content, more=True)
            raise ConnectionError("the answer ends here")
        case path:
            last = [(b"connection", b"close")] if path == "/last" else []
            await start(200, (b"content-length", b"%d" % len(content)), *last)
            await body(b"" if scope["method"] == "HEAD" else content)


def uvicorn(http: str) -> None:
    import uvicorn as server

    sock = listening()
    config = server.Config(app, http=http, lifespan="off", log_level="critical", ws="none")
    ready(sock.getsockname()[1])
    server.Server(config).run(sockets=[sock])


def hypercorn() -> None:
    from hypercorn.asyncio import serve  # pyright: ignore[reportUnknownVariableType]
    from hypercorn.config import Config

    sock = listening()
    config = Config()
    config.bind = [f"fd://{sock.fileno()}"]
    config.errorlog = config.accesslog = None
    ready(sock.getsockname()[1])
    asyncio.run(serve(app, config))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- aiohttp --------------------------------------------------------------------------------------


def aiohttp() -> None:
    from aiohttp import web

    async def answer(request: web.Request) -> web.StreamResponse:
        content = await request.read()
        if request.path == "/sse":
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            for event in events(int(request.query_string)):
                await response.write(event)
            return response
        if request.path == "/cut":
            response = web.StreamResponse(headers={"content-length": "100"})
            await response.prepare(request)
            await response.write(content)
            assert request.transport is not None
            request.transport.close()
            return response
        if request.path == "/none":
            return web.Response(status=204)
        if request.path == "/big":
            content = bytes(int(request.query_string))
        answered = web.Response(body=content)
        if request.path == "/last":
            answered.force_close()
        return answered

    async def main() -> None:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{any}", answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        sock = listening()
        await web.SockSite(runner, sock).start()
        ready(sock.getsockname()[1])
        await asyncio.Event().wait()

    asyncio.run(main())


SERVERS: dict[str, Callable[[], None]] = {
    "stdlib": stdlib,
    "uvicorn-h11": lambda: uvicorn("h11"),
    "uvicorn-httptools": lambda: uvicorn("httptools"),
    "hypercorn": hypercorn,
    "aiohttp": aiohttp,
}

if __name__ == "__main__":
    SERVERS[sys.argv[1]]()

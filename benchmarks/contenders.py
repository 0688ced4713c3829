"""Contenders that run in our own environment: the runtime, and the floors it is measured against.

`python -m benchmarks.contenders <name> <work as JSON>` does the work once and prints what it cost.
The work says how many streams run side by side and how many turns there are in all; each contender
reads every delta, decodes it, and counts the text deltas.

- `runtime`: the whole runtime by its public face, read by a `stream()` consumer: gate, log, events.
- `httpx`: trio and stock httpx; the body is split at blank lines and decoded, and nothing is kept.
- `engine`: the same code and API, on the transport's own engine.
- `aiohttp`: the same on aiohttp and uvloop.
- `socket`: a plain trio socket; HTTP is not even parsed.
"""

import asyncio
import json
import math
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import httpx
import msgspec
import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.transport.httpx_transport import EngineTransport
from benchmarks.endpoint import pin

_BODY: Final[dict[str, object]] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "Go."}],
}


class Work(msgspec.Struct):
    """What is to be done: `turns` in all, `at_once` of them side by side."""

    url: str
    turns: int
    at_once: int
    expect: int | None = None


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    choices: list[_Choice]


_decode: Final = msgspec.json.Decoder(_Chunk).decode


class Splitter:
    """The least that a client must do with a body: split it, decode it, count the texts."""

    def __init__(self) -> None:
        self._rest = b""
        self.texts: list[str] = []

    def feed(self, data: bytes) -> None:
        """Take a read's worth."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if event != b"data: [DONE]":
                text = _decode(event[6:]).choices[0].delta.content
                if text:
                    self.texts.append(text)


async def _share_trio(work: Work, one: Callable[[], Awaitable[int]]) -> int:
    """Do the turns, so many side by side."""
    left, count = work.turns, 0

    async def worker() -> None:
        nonlocal left, count
        while left:
            left -= 1
            seen = await one()  # not in one statement: that would read `count` before it waits
            count += seen

    async with trio.open_nursery() as nursery:
        for _ in range(work.at_once):
            nursery.start_soon(worker)
    return count


async def _runtime(work: Work) -> int:
    @tool
    async def work_tool(item: int) -> str:
        """Works."""
        return f"done {item}"

    options = AgentOptions(
        model="m", base_url=work.url, tools=[work_tool] if "/tools/" in work.url else []
    )
    async with open_runtime(streams_per_endpoint=math.inf) as runtime:

        async def one() -> int:
            seen = 0
            async with runtime.stream("Go.", options) as events:
                async for event in events:
                    if event.type == "assistant.delta":
                        seen += 1
            return seen

        return await _share_trio(work, one)


async def _httpx(work: Work, client: httpx.AsyncClient) -> int:
    async def one() -> int:
        split = Splitter()
        url = f"{work.url}/chat/completions"
        async with client.stream("POST", url, json=_BODY) as response:
            async for data in response.aiter_raw():
                split.feed(data)
        return len(split.texts)

    async with client:
        return await _share_trio(work, one)


async def _stock_httpx(work: Work) -> int:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    headers = {"accept-encoding": "identity"}
    return await _httpx(work, httpx.AsyncClient(timeout=None, limits=limits, headers=headers))


async def _engine_httpx(work: Work) -> int:
    headers = {"accept-encoding": "identity"}
    client = httpx.AsyncClient(timeout=None, transport=EngineTransport(), headers=headers)
    return await _httpx(work, client)


async def _socket(work: Work) -> int:
    host, _, rest = work.url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    body = json.dumps(_BODY).encode()
    head = f"POST /{rest}/chat/completions HTTP/1.1\r\nhost: {host}\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    async def one() -> int:
        split = _Loose()
        stream = await trio.open_tcp_stream(name, int(port))
        async with stream:
            await stream.send_all(request)
            while not split.ended:
                split.feed(await stream.receive_some(65536))
        return split.count

    return await _share_trio(work, one)


class _Loose:
    """Counts texts in a body whose framing it does not look at."""

    def __init__(self) -> None:
        self._rest = b""
        self.count = 0
        self.ended = False

    def feed(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            start = event.find(b"data: ") + 6
            if event.endswith(b"[DONE]"):
                self.ended = True
            elif _decode(event[start:]).choices[0].delta.content:
                self.count += 1


def _aiohttp(work: Work) -> int:
    import aiohttp  # noqa: PLC0415 - only this contender needs them
    import uvloop  # noqa: PLC0415

    async def main() -> int:
        left, count = work.turns, 0
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def worker() -> None:
                nonlocal left, count
                while left:
                    left -= 1
                    split = Splitter()
                    url = f"{work.url}/chat/completions"
                    async with session.post(url, json=_BODY) as response:
                        async for data in response.content.iter_any():
                            split.feed(data)
                    count += len(split.texts)

            await asyncio.gather(*(worker() for _ in range(work.at_once)))
        return count

    return int(uvloop.run(main()))


CONTENDERS: Final[dict[str, Callable[[Work], int]]] = {
    "runtime": lambda work: trio.run(_runtime, work),
    "httpx": lambda work: trio.run(_stock_httpx, work),
    "engine": lambda work: trio.run(_engine_httpx, work),
    "socket": lambda work: trio.run(_socket, work),
    "aiohttp": _aiohttp,
}


def main() -> None:
    """Do the work once; print what it cost."""
    pin(0)
    name, given = sys.argv[1:]
    work = msgspec.json.decode(given, type=Work)
    before, began = _cpu(), time.perf_counter()
    count = CONTENDERS[name](work)
    cost = {"cpu": _cpu() - before, "wall": time.perf_counter() - began, "count": count}
    print(json.dumps(cost))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()

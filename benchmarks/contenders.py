"""Contenders in this project's own environment: the runtime, and the baselines to compare it with.

`python -m benchmarks.contenders <name> <work as JSON>` does the work once and prints its cost. Each
contender creates its client and runs one turn before its clock starts. It reads and decodes every
delta and counts the deltas.

- `runtime`: the complete runtime through its public API, with session gate, log and events; the
  events are read from `stream()`.
- `runtime_batches`: the same through `events.batches()`.
- `runtime_asyncio`, `runtime_uvloop`: the same through `agent_actors.asyncio`.
- `runtime_run`: the same through `run()`, without a reader and without subscribers.
- `httpx`: trio and stock httpx. The body is split at blank lines and decoded; nothing is stored.
- `engine`: the same code and API on the transport's own engine.
- `aiohttp`: the same on aiohttp and uvloop.
- `socket`: a plain trio socket, without HTTP parsing.
"""

import json
import math
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs
import httpx
import msgspec
import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.events import ToolResult
from agent_actors.transport.backends.httpx_transport import EngineTransport
from benchmarks.endpoint import cpu_seconds, pin
from benchmarks.harness import Cost, Work

BODY: Final[dict[str, object]] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "Go."}],
}
"""The request of the baselines; the runtime sends the same."""

_CALLS: Final = [
    {"id": f"call_{number}", "type": "function", "function": {"name": "work", "arguments": "{}"}}
    for number in range(8)
]
TOOL_BODY: Final[dict[str, object]] = {
    **BODY,
    "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": _CALLS},
        *({"role": "tool", "tool_call_id": call["id"], "content": "done 0"} for call in _CALLS),
    ],
}
"""The second request of a loop of 8 tool calls. The baselines call no tools."""


def bodies_for(url: str) -> Sequence[dict[str, object]]:
    """Return the requests of one turn of a baseline."""
    return (BODY, TOOL_BODY) if "/tools/" in url else (BODY,)


Turn = Callable[[str], Awaitable[int]]
"""Runs one turn at a base URL and returns the number of deltas."""


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    choices: list[_Choice]


_decode: Final = msgspec.json.Decoder(_Chunk).decode


class Splitter:
    """The minimum that a client must do with a body: split it, decode it, and keep the texts."""

    def __init__(self) -> None:
        self._rest = b""
        self.texts: list[str] = []

    def feed(self, data: bytes) -> None:
        """Process the data of one read."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if event != b"data: [DONE]":
                text = _decode(event[6:]).choices[0].delta.content
                if text:
                    self.texts.append(text)


class LooseSplitter:
    """A splitter that ignores the HTTP framing of the body."""

    def __init__(self) -> None:
        self._rest = b""
        self.texts: list[str] = []
        self.ended: bool = False

    def feed(self, data: bytes) -> None:
        """Process the data of one read."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if event.endswith(b"[DONE]"):
                self.ended = True
            else:
                text = _decode(event[event.index(b"data: ") + 6 :]).choices[0].delta.content
                if text:
                    self.texts.append(text)


class Clock:
    """A clock that starts when it is created."""

    def __init__(self) -> None:
        self._cpu = cpu_seconds()
        self._began = time.perf_counter()

    def cost(self, count: int) -> Cost:
        """Return the cost so far of reading `count` deltas."""
        return Cost(cpu_seconds() - self._cpu, time.perf_counter() - self._began, count)


async def _share(work: Work, turn: Turn) -> Cost:
    """Run the turns on trio, up to `work.at_once` concurrently."""
    await turn(work.warm)
    clock, left, count = Clock(), work.turns, 0

    async def worker() -> None:
        nonlocal left, count
        while left:
            left -= 1
            seen = await turn(work.url)  # `count += await ...` would read `count` too early
            count += seen

    async with trio.open_nursery() as nursery:
        for _ in range(work.at_once):
            nursery.start_soon(worker)
    return clock.cost(count)


@tool(name="work")
async def _work(item: int) -> str:
    """Process an item."""
    return f"done {item}"


async def _runtime(work: Work, *, batches: bool = False) -> Cost:
    tools = [_work] if "/tools/" in work.url else []
    options = {
        url: AgentOptions(model="m", base_url=url, tools=tools) for url in (work.url, work.warm)
    }
    async with open_runtime(streams_per_endpoint=math.inf) as runtime:

        async def turn(url: str) -> int:
            seen = 0
            async with runtime.stream("Go.", options[url]) as events:
                if batches:
                    async for batch in events.batches():
                        seen += sum(event.type == "assistant.delta" for event in batch)
                    return seen
                async for event in events:
                    if event.type == "assistant.delta":
                        seen += 1
                    elif isinstance(event, ToolResult) and event.is_error:
                        raise RuntimeError(f"a tool failed: {event.content}")
            return seen

        return await _share(work, turn)


async def _runtime_run(work: Work) -> Cost:
    options = {url: AgentOptions(model="m", base_url=url) for url in (work.url, work.warm)}
    async with open_runtime(streams_per_endpoint=math.inf) as runtime:

        async def turn(url: str) -> int:
            result = await runtime.run("Go.", options[url])
            return len(result.text.split())

        return await _share(work, turn)


async def _over_httpx(work: Work, client: httpx.AsyncClient) -> Cost:
    async def turn(url: str) -> int:
        count = 0
        for body in bodies_for(url):
            split = Splitter()
            async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
                async for data in response.aiter_raw():
                    split.feed(data)
            count += len(split.texts)
        return count

    async with client:
        return await _share(work, turn)


async def _httpx(work: Work) -> Cost:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    headers = {"accept-encoding": "identity"}
    return await _over_httpx(work, httpx.AsyncClient(timeout=None, limits=limits, headers=headers))


async def _engine(work: Work) -> Cost:
    headers = {"accept-encoding": "identity"}
    transport = EngineTransport()
    client = httpx.AsyncClient(timeout=None, transport=transport, headers=headers)
    return await _over_httpx(work, client)


async def _socket(work: Work) -> Cost:
    async def turn(url: str) -> int:
        return sum([await ask(url, json.dumps(body).encode()) for body in bodies_for(url)])

    async def ask(url: str, body: bytes) -> int:
        host, _, path = url.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        head = f"POST /{path}/chat/completions HTTP/1.1\r\nhost: {host}\r\n"
        split = LooseSplitter()
        with trio.socket.socket() as connection:
            await connection.connect((name, int(port)))
            await connection.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            while not split.ended:
                split.feed(await connection.recv(65536))
        return len(split.texts)

    return await _share(work, turn)


def _aiohttp(work: Work) -> Cost:
    from benchmarks import aiohttp_floor  # noqa: PLC0415 - only this contender needs its libraries

    return aiohttp_floor.run(work)


def _asyncio(work: Work) -> Cost:
    from benchmarks import asyncio_contender  # noqa: PLC0415 - it imports this module

    return asyncio_contender.run(work, None)


def _uvloop(work: Work) -> Cost:
    import uvloop  # noqa: PLC0415 - as above

    from benchmarks import asyncio_contender  # noqa: PLC0415

    return asyncio_contender.run(work, uvloop.new_event_loop)


CONTENDERS: Final[dict[str, Callable[[Work], Cost]]] = {
    "runtime": lambda work: trio.run(_runtime, work),
    "runtime_batches": lambda work: trio.run(partial(_runtime, work, batches=True)),
    "runtime_asyncio": _asyncio,
    "runtime_uvloop": _uvloop,
    "runtime_run": lambda work: trio.run(_runtime_run, work),
    "httpx": lambda work: trio.run(_httpx, work),
    "engine": lambda work: trio.run(_engine, work),
    "socket": lambda work: trio.run(_socket, work),
    "aiohttp": _aiohttp,
}


def main() -> None:
    """Do the work once and print its cost."""
    pin(0)
    name, given = sys.argv[1:]
    cost = CONTENDERS[name](msgspec.json.decode(given, type=Work))
    print(json.dumps(attrs.asdict(cost)))


if __name__ == "__main__":
    main()

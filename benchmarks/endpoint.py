"""A minimal endpoint for benchmarks that answers chat completions with prepared bytes.

The endpoint runs in a separate process, on the second core if there is one. It does as little work
as possible, so that the benchmark measures the client. `GET /stats` returns the CPU time that the
endpoint has used, which each result shows as its load, and the number of request bytes that the
endpoint has received. The path before `/v1` selects the response:

- `/paced/<per second>/<count>`: deltas at a constant rate, one network write each.
- `/timed/<per second>/<count>`: the same, with the time of each write as the text.
- `/burst/<count>/<per write>`: deltas at full speed, several per network write.
- `/tools/<calls>/<count>`: tool calls; when their results have been sent back, `count` deltas.

`python -m benchmarks.endpoint` prints its URL and ends when its standard input ends.
"""

import asyncio
import functools
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from typing import Final, cast

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_LAST: Final = b"0\r\n\r\n"


def main() -> None:
    """Serve until the standard input ends."""
    pin(1)
    try:
        import uvloop  # noqa: PLC0415 - optional; makes the endpoint cheaper
    except ImportError:
        asyncio.run(_serve())
    else:
        uvloop.run(_serve())


def pin(core: int) -> None:
    """Pin this process to one core, if the machine has it."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > core:
        os.sched_setaffinity(0, {core})


def cpu_seconds() -> float:
    """Return the CPU seconds that this process has used, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=8192)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.close()


class _Connection(asyncio.Protocol):
    """One connection. Requests arrive one after another."""

    received = 0  # bytes, over all connections

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop do not inherit from those of asyncio.
        self._transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        _Connection.received += len(data)
        self._buffer += data
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        length = _length_of(head)
        if len(rest) >= length:
            self._buffer = rest[length:]
            self._answer(head.split(b" ", 2)[1].decode(), rest[:length])

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/stats":
            stats = json.dumps({"cpu": cpu_seconds(), "received": _Connection.received}).encode()
            self._send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(stats) + stats)
            return
        kind, first, second = path.split("/")[1:4]
        if kind == "paced":
            self._pace(1 / float(first), iter(_writes(int(second), 1)))
        elif kind == "timed":
            self._pace(1 / float(first), self._timed_writes(int(second)))
        elif kind == "burst":
            self._burst(_writes(int(first), int(second)))
        elif b'"tool_call_id"' in body:
            self._burst(_writes(int(second), int(second)))
        else:
            self._burst(_calls(int(first)))

    def _burst(self, writes: tuple[bytes, ...]) -> None:
        self._send(_HEAD + writes[0])
        for write in writes[1:]:
            self._send(write)

    def _timed_writes(self, count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield _event({"content": f"{time.monotonic():.6f}"})
        yield _end("stop")

    def _pace(self, every: float, writes: Iterator[bytes]) -> None:
        self._send(_HEAD)
        # Delay each stream differently, so that streams that begin together do not send together.
        start = self._loop.time() + every * (hash((id(self), every)) % 997) / 997
        self._timer = self._loop.call_at(start, self._tick, start + every, every, writes)

    def _tick(self, due: float, every: float, writes: Iterator[bytes]) -> None:
        write = next(writes, b"")
        self._timer = None
        if not write:
            return
        self._send(write)
        self._timer = self._loop.call_at(due, self._tick, due + every, every, writes)

    def _send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)


def _length_of(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


def _event(delta: dict[str, object], finish: str | None = None) -> bytes:
    chunk = {
        "id": "chatcmpl-benchmark",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return _chunked(b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n")


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _end(finish: str) -> bytes:
    return _event({}, finish) + _chunked(b"data: [DONE]\n\n") + _LAST


@functools.cache
def _writes(count: int, per_write: int) -> tuple[bytes, ...]:
    """Return the writes of a response with `count` deltas. Each delta is a separate chunk."""
    events = [_event({"content": f"word{number} "}) for number in range(count)]
    if per_write >= count:
        return (b"".join(events) + _end("stop"),)
    joined = (b"".join(events[at : at + per_write]) for at in range(0, count, per_write))
    return (*joined, _end("stop"))


@functools.cache
def _calls(count: int) -> tuple[bytes, ...]:
    events = b""
    for index in range(count):
        function = {"name": "work", "arguments": json.dumps({"item": index})}
        call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        events += _event({"tool_calls": [call]})
    return (events + _end("tool_calls"),)


if __name__ == "__main__":
    main()

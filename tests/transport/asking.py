"""Helpers for transport tests: open an exchange, build requests, and check connections."""

import contextlib
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
import trio.testing

from agent_actors.abc import ConnectionStatistics, HttpRequest
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.pool import DEFAULT_CONNECT_TIMEOUT, DEFAULT_KEEPALIVE
from agent_actors.transport.response import MAX_BODY, MAX_HEAD
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import WireServer

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"
AGAIN = OK + b"content-length: 5\r\n\r\nagain"
MEGABYTE = 1 << 20


@asynccontextmanager
async def opened(
    *,
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
    max_connections: float = 1000,
    keepalive: float = DEFAULT_KEEPALIVE,
    ssl_context: ssl.SSLContext | None = None,
    max_head: int = MAX_HEAD,
    max_body: int = MAX_BODY,
) -> AsyncGenerator[HttpExchange]:
    """Open an exchange; after the block, close it and check that no connection is left."""
    exchange = HttpExchange(
        connect_timeout=connect_timeout,
        max_connections=max_connections,
        keepalive=keepalive,
        ssl_context=ssl_context,
        max_head=max_head,
        max_body=max_body,
    )
    try:
        yield exchange
    finally:
        adds_up(exchange)
        await exchange.aclose()
    adds_up(exchange)
    assert (connections(exchange).open, exchange.statistics().live) == (0, 0)


def post(server: WireServer, content: bytes = b"{}", **headers: str) -> HttpRequest:
    return HttpRequest(server.url, headers, content)


async def body_of(exchange: HttpExchange, server: WireServer, content: bytes = b"{}") -> bytes:
    """Send a request; return the body of the response."""
    sink = ByteCollector()
    await exchange.exchange(post(server, content), sink)
    return sink.body


def connections(exchange: HttpExchange) -> ConnectionStatistics:
    statistics = exchange.statistics().connections
    assert statistics is not None
    return statistics


def closed(statistics: ConnectionStatistics) -> dict[str, int]:
    """Return the number of closed connections for each reason that occurred."""
    reasons = ("peer", "answer", "fault", "cancel", "expiry", "shutdown")
    counts = {reason: int(getattr(statistics, f"closed_by_{reason}")) for reason in reasons}
    return {reason: count for reason, count in counts.items() if count}


def adds_up(exchange: HttpExchange) -> None:
    """Check that every opened connection is still open or has a reason for its end."""
    now = connections(exchange)
    assert now.opened == now.open + sum(closed(now).values())
    assert 0 <= now.idle <= now.open


def descriptors() -> dict[int, str]:
    """Return the open descriptors of this process and their targets."""
    found: dict[int, str] = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(
            OSError
        ):  # closed since the listing, like the descriptor of the listing
            found[int(entry.name)] = os.readlink(entry)  # noqa: PTH115 - the target may not be a path
    return found


async def quiet() -> None:
    """Wait until all tasks are blocked."""
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.001)

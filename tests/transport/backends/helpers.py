"""An httpx client that uses the transport's engine."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import trio

from agent_actors.transport.backends.httpx_transport import EngineTransport
from agent_actors.transport.response import MAX_BODY
from tests.transport.asking import closed


@asynccontextmanager
async def client_of(
    *,
    timeout: httpx.Timeout | None = None,  # noqa: ASYNC109 - named as in httpx
    max_connections: float = math.inf,
    max_body: int = MAX_BODY,
) -> AsyncGenerator[tuple[httpx.AsyncClient, EngineTransport]]:
    transport = EngineTransport(max_connections=max_connections, max_body=max_body)
    async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
        yield client, transport
    now = transport.statistics()
    assert (now.open, now.waiting) == (0, 0)
    assert now.opened == sum(closed(now).values())


async def pieces_of(*pieces: bytes) -> AsyncGenerator[bytes]:
    """Yield the pieces of a request body one by one."""
    for piece in pieces:
        await trio.lowlevel.checkpoint()
        yield piece

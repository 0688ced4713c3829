"""The check of the addresses of a host, before a connection is opened."""

import socket
from typing import Literal, TypeAlias

import pytest
import trio

from agent_actors.abc import HttpRequest
from agent_actors.errors import ProviderConnectError
from agent_actors.transport.addresses import find_address_error
from agent_actors.transport.backends.native import HttpExchange
from tests.transport.asking import HELLO
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import WireServer, ask

Resolved: TypeAlias = list[
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
]


class Resolver(trio.abc.HostnameResolver):
    """Resolves every name to scripted addresses.

    Args:
        *answers: The addresses for each call in turn; the last answer is repeated.

    Attributes:
        calls: The number of calls.
    """

    def __init__(self, *answers: list[str]) -> None:
        self._answers = answers
        self.calls = 0

    async def getaddrinfo(  # noqa: PLR0917 - the signature of trio
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002
        proto: int = 0,
        flags: int = 0,
    ) -> Resolved:
        answer = self._answers[min(self.calls, len(self._answers) - 1)]
        self.calls += 1
        await trio.lowlevel.checkpoint()
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port or 0)))
            for address in answer
        ]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


async def get(url: str, resolver: Resolver, *, only_loopback: bool = False) -> ByteCollector:
    """Request a URL with a scripted resolver; `only_loopback` reverses the usual check."""

    def check(address: str) -> str:
        if only_loopback:
            return "" if address.startswith("127.") else "not loopback"
        return find_address_error(address)

    trio.socket.set_custom_hostname_resolver(resolver)
    exchange = HttpExchange(check_address=check)
    sink = ByteCollector()
    try:
        await exchange.exchange(HttpRequest(url, {}, b"", "GET"), sink)
    finally:
        await exchange.aclose()
        trio.socket.set_custom_hostname_resolver(None)
    return sink


async def test_name_with_private_address_is_refused() -> None:
    async with WireServer([ask, HELLO]) as server:
        resolver = Resolver(["127.0.0.1"])
        with pytest.raises(ProviderConnectError, match="loopback address"):
            await get(f"http://public.example:{server.port}/", resolver)
        assert server.requests == []


async def test_one_private_address_refuses_all() -> None:
    async with WireServer([ask, HELLO]) as server:
        resolver = Resolver(["127.0.0.1", "93.184.216.34"])
        with pytest.raises(ProviderConnectError, match="loopback address"):
            await get(f"http://public.example:{server.port}/", resolver)
        resolver = Resolver(["93.184.216.34", "127.0.0.1"])
        with pytest.raises(ProviderConnectError, match="loopback address"):
            await get(f"http://public.example:{server.port}/", resolver)
        assert server.requests == []


async def test_checked_name_is_resolved_once() -> None:
    async with WireServer([ask, HELLO]) as server:
        resolver = Resolver(["127.0.0.1"], ["10.0.0.1"])
        sink = await get(f"http://rebinding.example:{server.port}/", resolver, only_loopback=True)
        assert (sink.body, resolver.calls) == (b"hello", 1)
        assert f"host: rebinding.example:{server.port}".encode() in server.requests[0].lower()


async def test_dead_address_leaves_the_next() -> None:
    async with WireServer([ask, HELLO]) as server:
        # Nothing listens on 127.0.0.2: the server accepts connections to 127.0.0.1 only.
        resolver = Resolver(["127.0.0.2", "127.0.0.1"])
        sink = await get(f"http://two.example:{server.port}/", resolver, only_loopback=True)
        assert sink.body == b"hello"


async def test_name_without_address_fails() -> None:
    with pytest.raises(ProviderConnectError, match="No route to host"):
        await get("http://nowhere.example/", Resolver([]), only_loopback=True)


async def test_address_in_url_is_checked() -> None:
    with pytest.raises(ProviderConnectError, match="loopback address"):
        await get("http://127.0.0.1:9/", Resolver(["127.0.0.1"]))

"""The proxy of a sandbox, over loopback connections."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from agent_actors.errors import ConfigError
from agent_actors.toolbox.workspace.network import proxy as module
from agent_actors.toolbox.workspace.network.proxy import HostProxy
from agent_actors.transport.addresses import AddressCheck, find_address_error
from tests.toolbox.workspace.network.helpers import RESPONSE, Names, open_server

ALLOWED = ("good.test", "*.good.test")


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def allow_any(_: str) -> str:
    return ""


@attrs.frozen
class Stage:
    """A running proxy."""

    address: tuple[str, int]
    refusals: list[tuple[str, str]]
    stop: trio.CancelScope

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream(*self.address)

    async def ask(self, data: str) -> bytes:
        """Send a request, and return the response up to its end."""
        async with await self.connect() as client:
            await client.send_all(data.encode())
            return await read_all(client)


async def read_all(stream: trio.SocketStream) -> bytes:
    return b"".join([bytes(data) async for data in stream])


@asynccontextmanager
async def serving(
    port: int = 443, check_address: AddressCheck = allow_any
) -> AsyncGenerator[Stage]:
    refusals: list[tuple[str, str]] = []
    proxy = HostProxy(
        ALLOWED,
        lambda host, why: refusals.append((host, why)),
        ports=frozenset({port}),
        check_address=check_address,
    )
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listener.socket.getsockname()
    async with listener, trio.open_nursery() as nursery:
        # The listening socket already queues connections.
        nursery.start_soon(proxy.serve, listener.socket)  # noqa: ASYNC113
        yield Stage(("127.0.0.1", address[1]), refusals, nursery.cancel_scope)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def names() -> Names:
    found = Names({"good.test": "127.0.0.1", "sub.good.test": "127.0.0.1"})
    trio.socket.set_custom_hostname_resolver(found)
    return found


async def test_tunnel_carries_bytes_both_ways(names: Names) -> None:
    async with (
        open_server(echo=True) as server,
        serving(server.port) as stage,
        await stage.connect() as client,
    ):
        await client.send_all(f"CONNECT good.test:{server.port} HTTP/1.1\r\n\r\nfirst".encode())
        data = b""
        while not data.endswith(b"first"):
            data += await client.receive_some()
        assert data == b"HTTP/1.1 200 Connection established\r\n\r\nfirst"
        await client.send_all(b"\0\xff")
        assert await client.receive_some() == b"\0\xff"
        await client.send_eof()
        assert await client.receive_some() == b""
    assert (names.asked, stage.refusals) == (["good.test"], [])


async def test_request_is_sent_to_its_host(names: Names) -> None:
    async with open_server() as server, serving(server.port) as stage:
        body = "x" * 200_000
        request = (
            f"POST http://sub.good.test:{server.port}/a HTTP/1.1\r\nhost: evil.test\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        )
        assert await stage.ask(request) == RESPONSE
    (head,) = server.heads
    host = f"host: sub.good.test:{server.port}"
    assert head.splitlines()[:2] == [b"POST /a HTTP/1.1", host.encode()]
    assert b"evil" not in head


@pytest.mark.parametrize(
    ("target", "host", "reason"),
    [
        ("evil.test:443", "evil.test", "does not allow the host 'evil.test'; allowed: good.test, "),
        ("notgood.test:443", "notgood.test", "does not allow the host 'notgood.test'"),
        ("good.test.evil.test:443", "good.test.evil.test", "does not allow the host"),
        ("127.0.0.1:443", "127.0.0.1", "does not allow the host '127.0.0.1'"),
        ("0x7f.1:443", "127.0.0.1", "does not allow the host '127.0.0.1'"),
        ("[::1]:443", "::1", "does not allow the host '::1'"),
        ("good.test:22", "good.test", "does not allow port 22 of 'good.test'; allowed: 443"),
        ("good.test:80", "good.test", "does not allow port 80"),
        ("good.test:443", "good.test", "127.0.0.1, is a loopback address"),
    ],
)
async def test_refusal_names_the_host(names: Names, target: str, host: str, reason: str) -> None:
    async with serving(check_address=find_address_error) as stage:
        for request in (
            f"CONNECT {target} HTTP/1.1\r\n\r\n",
            f"GET http://{target}/ HTTP/1.1\r\n\r\n",
        ):
            head, _, body = (await stage.ask(request)).decode().partition("\r\n\r\n")
            line = head.partition("\r\n")[0]
            assert line.startswith("HTTP/1.1 403 ")
            assert reason in line
            assert reason in body
    assert [refused for refused, _ in stage.refusals] == [host, host]
    assert all(reason in why for _, why in stage.refusals)


async def test_checked_address_is_the_connected_one(names: Names) -> None:
    """A name that changes its address (DNS rebinding) is resolved once, checked, and used."""
    async with open_server() as server:

        def check(address: str) -> str:
            names.addresses["good.test"] = "10.0.0.1"
            return "" if address == "127.0.0.1" else "another address"

        async with serving(server.port, check) as stage:
            request = f"GET http://good.test:{server.port}/ HTTP/1.1\r\n\r\n"
            assert await stage.ask(request) == RESPONSE
            assert b" 403 " in await stage.ask(request)
    assert len(server.heads) == 1
    assert names.asked == ["good.test", "good.test"]


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        ("\x16\x03\x01", b"400 Bad Request"),
        ("CONNECT unknown.good.test:443 HTTP/1.1\r\n\r\n", b"502 Bad Gateway"),
        ("CONNECT good.test:443 HTTP/1.1\r\n\r\n", b"502 Bad Gateway"),
    ],
)
async def test_failure_is_an_http_response(names: Names, request_text: str, status: bytes) -> None:
    names.addresses["good.test"] = "127.0.0.2"  # nothing listens there
    async with serving() as stage:
        assert (await stage.ask(request_text)).startswith(b"HTTP/1.1 " + status)
    assert stage.refusals == []


async def test_slow_head_is_refused(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HEAD_TIME", 0.05)
    async with serving() as stage:
        assert b"408 Request Timeout" in await stage.ask("CONNECT good.test:443 HTTP/1.1\r\n")


async def test_idle_tunnel_is_closed(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_TIME", 0.05)
    async with open_server(echo=True) as server, serving(server.port) as stage:
        response = await stage.ask(f"CONNECT good.test:{server.port} HTTP/1.1\r\n\r\n")
        assert response == b"HTTP/1.1 200 Connection established\r\n\r\n"


async def test_connections_are_bounded(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECTIONS", 2)
    async with serving() as stage:
        held = [await stage.connect() for _ in range(2)]
        async with await stage.connect() as waiting:
            await waiting.send_all(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
            with trio.move_on_after(0.05) as early:
                await waiting.receive_some()
            assert early.cancelled_caught
            await held[0].aclose()
            assert b" 403 " in await read_all(waiting)
        await held[1].aclose()


async def test_cancelling_closes_all_connections(names: Names) -> None:
    before = open_descriptors()
    async with open_server(echo=True) as server:
        async with serving(server.port) as stage:
            clients = [await stage.connect() for _ in range(5)]
            for client in clients[:4]:
                await client.send_all(f"CONNECT good.test:{server.port} HTTP/1.1\r\n\r\n".encode())
                assert b" 200 " in await client.receive_some()
            stage.stop.cancel()
        for client in clients:
            with trio.CancelScope(shield=True):
                assert await client.receive_some() == b""
                await client.aclose()
        while server.ends < 4:
            await trio.testing.wait_all_tasks_blocked()
    assert open_descriptors() == before


def test_hosts_are_validated() -> None:
    with pytest.raises(ConfigError, match="domain:https://x: expected only a host"):
        HostProxy(("https://x",), lambda host, why: None)

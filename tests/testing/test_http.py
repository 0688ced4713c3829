"""The server's HTTP, seen from raw sockets."""

import json

import pytest
import trio

from agent_actors.testing import _http
from agent_actors.testing._http import BadRequest
from agent_actors.testing.endpoint import ScriptedEndpoint
from agent_actors.testing.replies import Framing, body, reply
from agent_actors.testing.script import pause, say
from tests.testing.raw_client import QUESTION, RawClient, ask, body_of, request_bytes

END = b"0\r\n\r\n"


async def test_a_connection_serves_one_request_after_another() -> None:
    async with ScriptedEndpoint(["one", "two"]) as endpoint, RawClient(endpoint) as client:
        for text in (b"one", b"two"):
            await client.send(request_bytes())
            assert text in await client.read_until(END)
        assert endpoint.connections == endpoint.open_connections == 1
        assert [request.connection for request in endpoint.requests] == [0, 0]


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with ScriptedEndpoint(["one", "two"]) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes() * 2)
        data = await client.read_until(END)
        if data.count(END) < 2:
            data += await client.read_until(END)
        assert data.index(b"one") < data.index(b"two")


@pytest.mark.parametrize("size", [1, 7])
async def test_a_request_may_come_in_any_pieces(size: int) -> None:
    data = request_bytes()
    async with ScriptedEndpoint(["hello"]) as endpoint, RawClient(endpoint) as client:
        for start in range(0, len(data), size):
            await client.send(data[start : start + size])
        assert b"hello" in await client.read_until(END)
        assert endpoint.requests[0].body == QUESTION


async def test_a_request_may_come_in_chunks() -> None:
    content = json.dumps(QUESTION).encode()
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (1, content[i : i + 1]) for i in range(len(content)))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with ScriptedEndpoint(["hello", "again"]) as endpoint, RawClient(endpoint) as client:
        await client.send(head + chunks + b"0\r\nTrailer: x\r\n\r\n")
        assert b"hello" in await client.read_until(END)
        assert endpoint.requests[0].content == content
        await client.send(request_bytes())
        assert b"again" in await client.read_until(END)


async def test_connection_close_is_honoured() -> None:
    async with ScriptedEndpoint(["hello"]) as endpoint:
        data, ending = await ask(endpoint)
        assert data.endswith(END)
        assert ending == "closed"


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "expected an HTTP/1.1 request, got b'SSH"),
        (b"GET /v1/models SPDY/3\r\n\r\n", "expected an HTTP/1.1 request"),
        (b"GET /v1/models HTTP/1.1\r\nno header\r\n\r\n", "expected an HTTP/1.1 request"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "chunk size"),
        (b"CONNECT x:1 HTTP/1.1\r\n\r\n", "CONNECT requests and"),
        (b"POST / HTTP/1.1\r\nContent-Length: 9999\r\n\r\n" + b"x" * 999, "longer than 999 b"),
    ],
)
async def test_invalid_request_fails_the_test(
    sent: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_http, "_MAX_SIZE", 999)
    answers: list[bytes] = []

    async def exchange() -> None:
        async with ScriptedEndpoint([]) as endpoint, RawClient(endpoint) as client:
            await client.send(sent)
            answers.append((await client.read_to_end())[0])

    with pytest.raises(BadRequest, match=fault):
        await exchange()
    assert answers[0].startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("cut", [1, 30, -1])
async def test_aborted_request_is_forgotten(cut: int) -> None:
    async with ScriptedEndpoint([]) as endpoint:
        async with RawClient(endpoint) as client:
            await client.send(request_bytes()[:cut])
        await endpoint.wait_closed()
        assert endpoint.requests == []


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_every_framing_carries_the_same_body(framing: Framing) -> None:
    async with ScriptedEndpoint(lambda _: reply("hello")) as plain:
        expected = body_of((await ask(plain))[0])
    async with ScriptedEndpoint(lambda _: reply("hello", framing=framing)) as endpoint:
        data, ending = await ask(endpoint)
        assert body_of(data) == expected
        assert (b"content-length: %d\r\n" % len(expected) in data) == (framing == "length")
        assert ending == "closed"


async def test_unsized_body_closes_connection() -> None:
    script = [reply("hello", framing="close")]
    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes())
        assert (await client.read_to_end())[1] == "closed"


async def test_large_response_arrives_completely() -> None:
    content = bytes(range(256)) * 40_000
    async with ScriptedEndpoint([body(content)]) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes(QUESTION, "Connection: close"))
        await endpoint.wait_live(1)
        data, _ = await client.read_to_end()
        assert body_of(data) == content


@pytest.mark.parametrize("seconds", [0.02, 60])
async def test_leaving_client_is_noticed_during_pause(seconds: float) -> None:
    async with ScriptedEndpoint([reply("a", pause(seconds), "b", *[pause(0.01)] * 99)]) as endpoint:
        async with RawClient(endpoint) as client:
            await client.send(request_bytes())
            await client.read_until(b'"a"')
            assert endpoint.live_responses == 1
        with trio.fail_after(5):
            await endpoint.wait_quiet()
            await endpoint.wait_closed()


async def test_request_during_pause_waits() -> None:
    script = [reply("a", pause(0.2), "b"), reply("c")]
    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes())
        await client.read_until(b'"a"')
        await client.send(request_bytes(QUESTION, "Connection: close"))
        data, _ = await client.read_to_end()
        assert data.index(b'"b"') < data.index(b'"c"')


async def test_writes_are_cut_to_the_sizes_given() -> None:
    async with ScriptedEndpoint([reply(say("hello"), split=[3, 5])]) as endpoint:
        async with RawClient(endpoint) as client:
            await client.send(request_bytes(QUESTION, "Connection: close"))
            data, _ = await client.read_to_end()
        assert b"hello" in body_of(data)
        # The kernel may join writes, but it does not split writes this small.
        boundaries = {8 * n for n in range(len(data))} | {8 * n + 3 for n in range(len(data))}
        place = 0
        for read in client.reads[:-1]:
            place += len(read)
            assert place in boundaries
        assert len(client.reads) > 3


async def test_reset_connection_is_forgotten() -> None:
    script = [body(bytes(20_000_000)), reply("a", pause(60))]
    async with ScriptedEndpoint(script) as endpoint:
        for _ in script:
            async with RawClient(endpoint) as client:
                await client.send(request_bytes())
                await endpoint.wait_live(1)
                client.reset()
            with trio.fail_after(5):
                await endpoint.wait_quiet()
                await endpoint.wait_closed()


@pytest.mark.parametrize("sent", [b"", b"5\r\nab"])
async def test_aborted_chunked_request_is_forgotten(sent: bytes) -> None:
    async with ScriptedEndpoint([]) as endpoint:
        async with RawClient(endpoint) as client:
            await client.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)
        with trio.fail_after(5):
            await endpoint.wait_closed()
        assert endpoint.requests == []

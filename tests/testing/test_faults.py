"""Every fault that the endpoint can produce, seen from a raw socket."""

import pytest
import trio

from agent_actors.testing.endpoint import ScriptedEndpoint
from agent_actors.testing.replies import (
    Reply,
    body,
    disconnect,
    disconnect_after,
    hang_up,
    html,
    in_band_error,
    not_http,
    reply,
    silent,
    status,
)
from agent_actors.testing.script import hang, pause
from tests.testing.raw_client import Ending, RawClient, ask, body_of, request_bytes


async def answer(scripted: Reply) -> tuple[bytes, Ending]:
    async with ScriptedEndpoint([scripted]) as endpoint:
        return await ask(endpoint)


async def test_a_status_with_its_headers_and_body() -> None:
    data, _ = await answer(status(429, {"a": 1}, headers={"Retry-After": "2"}))

    head = data.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert head[0] == "HTTP/1.1 429 Too Many Requests"
    assert set(head[1:]) == {
        "content-type: application/json",
        "content-length: 7",
        "retry-after: 2",
    }
    assert body_of(data) == b'{"a":1}'


async def test_unknown_status_is_possible() -> None:
    assert (await answer(status(599)))[0].startswith(b"HTTP/1.1 599 \r\n")


async def test_a_web_page_in_place_of_json() -> None:
    data, _ = await answer(html())

    assert b"content-type: text/html; charset=utf-8" in data
    assert body_of(data).startswith(b"<html>")


async def test_any_bytes_as_a_body() -> None:
    data, _ = await answer(body(b"\x00\xff", "application/x-strange", status=201))

    assert data.startswith(b"HTTP/1.1 201 Created\r\n")
    assert body_of(data) == b"\x00\xff"


async def test_reply_headers_override_defaults() -> None:
    data, _ = await answer(reply("a", headers={"Content-Type": "text/plain"}))

    assert data.count(b"content-type") == 1
    assert b"content-type: text/plain\r\n" in data


async def test_silence_until_client_leaves() -> None:
    async with ScriptedEndpoint([silent()]) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes())
        await endpoint.wait_live(1)
        with trio.move_on_after(0.02) as scope:
            await client.read_to_end()
        assert scope.cancelled_caught
        assert client.reads == []


@pytest.mark.parametrize(("reset", "ending"), [(False, "closed"), (True, "reset")])
async def test_connection_that_ends_without_a_response(reset: bool, ending: Ending) -> None:
    assert await answer(hang_up(reset=reset)) == (b"", ending)


async def test_something_that_is_not_http() -> None:
    assert await answer(not_http(b"hello\r\n")) == (b"hello\r\n", "closed")


@pytest.mark.parametrize(("reset", "ending"), [(False, "closed"), (True, "reset")])
async def test_disconnect_leaves_chunked_body_open(reset: bool, ending: Ending) -> None:
    data, found = await answer(reply("a", disconnect(reset=reset), "b"))

    assert found == ending
    assert b'"a"' in data
    assert b'"b"' not in data
    assert not data.endswith(b"0\r\n\r\n")


async def test_disconnect_leaves_sized_body_short() -> None:
    data, _ = await answer(reply("a", disconnect(), framing="length"))

    assert b"content-length: %d\r\n" % (len(body_of(data)) + 1) in data


@pytest.mark.parametrize(("reset", "ending"), [(False, "closed"), (True, "reset")])
async def test_a_disconnect_after_any_byte(reset: bool, ending: Ending) -> None:
    # Ids contain the number of the request, so without a fixed id the responses would differ.
    hello = reply("Hello", transform=lambda chunks: [one | {"id": "x"} for one in chunks])
    whole, _ = await answer(hello)

    sizes = [0, 1, 17, *range(40, len(whole), 29), len(whole) - 1, len(whole)]
    script = [disconnect_after(size, hello, reset=reset) for size in sizes]
    async with ScriptedEndpoint(script) as endpoint:
        for size in sizes:
            assert await ask(endpoint) == (whole[:size], ending)
        await endpoint.wait_closed()


async def test_disconnect_after_end_cuts_nothing() -> None:
    script = [disconnect_after(99_999, reply("a")), reply("b")]
    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as client:
        for text in (b'"a"', b'"b"'):
            await client.send(request_bytes())
            assert text in await client.read_until(b"0\r\n\r\n")


async def test_disconnect_and_split_combine() -> None:
    scripted = disconnect_after(100, reply("Hello", split=[7]))

    assert len((await answer(scripted))[0]) == 100


async def test_response_that_stalls_forever() -> None:
    async with ScriptedEndpoint([reply("a", hang())]) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes())
        await client.read_until(b'"a"')
        with trio.move_on_after(0.02) as scope:
            await client.read_to_end()
        assert scope.cancelled_caught


async def test_late_response() -> None:
    async with ScriptedEndpoint([reply("a", delay=0.05)]) as endpoint:
        before = trio.current_time()
        await ask(endpoint)
        assert trio.current_time() - before >= 0.05


async def test_response_with_a_pause() -> None:
    async with ScriptedEndpoint([reply("a", pause(0.05), "b")]) as endpoint:
        before = trio.current_time()
        await ask(endpoint)
        assert trio.current_time() - before >= 0.05


async def test_error_inside_a_response() -> None:
    data, _ = await answer(reply("a", in_band_error("overloaded", code="busy")))

    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body_of(data).endswith(
        b'data: {"error":{"message":"overloaded","type":"server_error","code":"busy"}}\n\n'
    )

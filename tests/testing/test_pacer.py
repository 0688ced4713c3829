"""Responses with a delta every few milliseconds."""

import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
import trio

from agent_actors.testing._http import ClientGone, Connection
from agent_actors.testing._pacer import Beat, Pacer
from agent_actors.testing._wire import Segment
from agent_actors.testing.endpoint import ScriptedEndpoint, _paced
from agent_actors.testing.replies import EndpointRequest, Reply, disconnect, reply
from agent_actors.testing.script import Hang, Pause, hang, pause, say
from tests.testing.raw_client import PATIENCE, QUESTION, RawClient, ask, body_of, request_bytes

SHORT, LONG = Pause(0.01), Pause(1)


@pytest.mark.parametrize(
    ("segments", "parts"),
    [
        ([], []),
        ([b"a", SHORT, b"b", SHORT, b"c"], [b"a", [(0.01, b"b"), (0.01, b"c")]]),
        ([SHORT, b"a", Hang()], [[(0.01, b"a")], Hang()]),
        ([SHORT, b"a", LONG, b"b"], [[(0.01, b"a")], LONG, b"b"]),
        ([SHORT, SHORT, b"a"], [SHORT, [(0.01, b"a")]]),
        ([SHORT, b"a", SHORT, SHORT], [[(0.01, b"a")], SHORT, SHORT]),
        ([SHORT, b"a", Hang(), SHORT, b"b"], [[(0.01, b"a")], Hang(), [(0.01, b"b")]]),
        ([b"a", SHORT], [b"a", SHORT]),
    ],
)
def test_short_pauses_share_a_pacer(
    segments: Sequence[Segment], parts: list[Segment | list[Beat]]
) -> None:
    assert list(_paced(segments, "length")) == parts


def test_beats_are_framed() -> None:
    assert list(_paced([SHORT, b"abc"], "chunked")) == [[(0.01, b"3\r\nabc\r\n")]]


async def test_paced_bytes_equal_unpaced_bytes() -> None:
    text = "The text does not depend on the timing."
    async with ScriptedEndpoint(
        [say(text, chunks=9), say(text, chunks=9, every=0.001)]
    ) as endpoint:
        answers = [body_of((await ask(endpoint))[0]) for _ in range(2)]

    assert answers[0].replace(b"chatcmpl-0", b"chatcmpl-1") == answers[1]


async def test_every_delta_has_its_own_write() -> None:
    script = [say(*"abcdefgh", every=0.005)]
    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as client:
        before = trio.current_time()
        await client.send(request_bytes(QUESTION, "Connection: close"))
        await client.read_to_end()
        assert trio.current_time() - before >= 8 * 0.005
        assert len(client.reads) > 2


async def test_shorter_pause_overtakes_longer_one() -> None:
    def script(request: EndpointRequest) -> Reply:
        slow = request.last_content == "slow"
        return reply(say(*"ab" * 50, every=0.09)) if slow else reply(say("c", every=0.001))

    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as slow:
        await slow.send(request_bytes({"messages": [{"content": "slow"}], "stream": True}))
        await endpoint.wait_live(1)
        with trio.fail_after(PATIENCE):
            await ask(endpoint)
        assert endpoint.live_responses == 1


async def test_slow_client_delays_only_itself() -> None:
    large = "x" * 3_000_000
    script = [say(large, large, large, every=0.001), say(*"abc", every=0.001)]
    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as deaf:
        await deaf.send(request_bytes(QUESTION, "Connection: close"))
        await endpoint.wait_live(1)
        assert (await ask(endpoint))[1] == "closed"
        data, _ = await deaf.read_to_end()
        assert data.count(large.encode()) == 3


async def test_steps_after_paced_deltas_run() -> None:
    script = [reply(say(*"ab", every=0.001), disconnect(reset=True))]
    async with ScriptedEndpoint(script) as endpoint:
        data, ending = await ask(endpoint)
        assert b'"b"' in data
        assert ending == "reset"


async def test_closing_endpoint_ends_paced_responses() -> None:
    async with AsyncExitStack() as clients:
        async with ScriptedEndpoint([say(*"a" * 500, every=0.05)]) as endpoint:
            client = await clients.enter_async_context(RawClient(endpoint))
            await client.send(request_bytes())
            await client.read_until(b'"a"')
        assert (endpoint.live_responses, endpoint.open_connections) == (0, 0)
        assert not (await client.read_to_end())[0].endswith(b"0\r\n\r\n")


async def test_client_may_leave_a_hang() -> None:
    async with ScriptedEndpoint([reply("a", pause(0.001), hang())]) as endpoint:
        async with RawClient(endpoint) as client:
            await client.send(request_bytes())
            await client.read_until(b'"a"')
        with trio.fail_after(PATIENCE):
            await endpoint.wait_closed()


async def test_departed_client_leaves_no_writes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        served, _ = listener.accept()
    served.setblocking(False)
    connection = Connection(served)
    client.close()
    await trio.lowlevel.wait_readable(served)
    pacer = Pacer()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pacer.run)
        with trio.fail_after(PATIENCE), pytest.raises(ClientGone):
            # The last write is due too late to be the one that detected the disconnect.
            await pacer.play(connection, [*[(0.001, b"x")] * 3, (60, b"y")])
        nursery.cancel_scope.cancel()
    connection.close()

"""Cancellation at every step, and of hundreds of requests, over sockets."""

import math
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from trio.lowlevel import Task

from agent_actors.errors import ProviderConnectError
from agent_actors.testing import StepOutcome, cancel_at_every_step
from agent_actors.transport.backends.native import HttpExchange
from agent_actors.transport.reactor import EpollReactor, WaitReactor, use_reactor
from tests.transport.asking import (
    AGAIN,
    HELLO,
    OK,
    adds_up,
    body_of,
    connections,
    descriptors,
    opened,
    post,
    quiet,
)
from tests.transport.sinks import ByteCollector
from tests.transport.wire_helpers import Step, WireServer, apart, ask, ask_head, turns

CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


@attrs.frozen
class Stage:
    """The server and exchange around the cancelled code, and the descriptors open before."""

    server: WireServer
    exchange: HttpExchange
    before: dict[int, str]


def staged(
    reactor: type[EpollReactor | WaitReactor], script: Sequence[Step], *, warm: bool
) -> Callable[[], AbstractAsyncContextManager[Stage]]:
    """Return a context manager that opens a server and an exchange.

    If `warm` is true, the exchange already has a connection that was used once.
    """

    @asynccontextmanager
    async def stage() -> AsyncGenerator[Stage]:
        before = descriptors()
        use_reactor(reactor())
        # No deadlines: a virtual clock would jump to them while bytes are in transit.
        async with (
            WireServer(script, forever=LATER, patience=math.inf) as server,
            opened(connect_timeout=math.inf, keepalive=math.inf) as exchange,
        ):
            if warm:
                assert await body_of(exchange, server) == b"hello"
            yield Stage(server, exchange, before)
        await trio.testing.wait_all_tasks_blocked()
        left = {target for target in descriptors().values() if target.startswith("socket:")}
        assert left <= set(before.values())

    return stage


def outlives(task: Task) -> bool:
    return "Reactor._run" in task.name or "WireServer._serve" in task.name


SCRIPTS: dict[str, list[Step]] = {
    "whole": [ask, HELLO],
    "chunks": [ask, *apart(CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 10, 48, 55)],
    "early": [ask_head, OK + b"connection: close\r\ncontent-length: 1\r\n\r\nx"],
}
WARM: list[Step] = [ask, HELLO]
LATER: list[Step] = [ask, AGAIN, ask, AGAIN]
BODIES = {b"hello", b"again", b"abc", b"x"}


@pytest.mark.parametrize("reactor", [EpollReactor, WaitReactor])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", SCRIPTS)
def test_cancel_at_any_step_frees_connection(
    name: str, reactor: type[EpollReactor | WaitReactor], *, warm: bool
) -> None:
    script = [*(WARM if warm else []), *SCRIPTS[name], *LATER]

    async def exchange(stage: Stage) -> None:
        content = bytes(4_000_000) if name == "early" else b"{}"
        await body_of(stage.exchange, stage.server, content)

    async def check(step: int, outcome: StepOutcome[Stage]) -> None:
        stage = outcome.subject
        adds_up(stage.exchange)
        now = connections(stage.exchange)
        assert stage.exchange.statistics().live == 0
        assert now.open == now.idle  # no connection is in use or being opened
        if outcome.cancelled and now.closed_by_cancel:
            await stage.server.wait_gone(1)  # the server notices at once
        assert await body_of(stage.exchange, stage.server) in BODIES

    steps = cancel_at_every_step(
        exchange,
        around=staged(reactor, script, warm=warm),
        check=check,
        may_stay=outlives,
        time_limit=math.inf,
    )
    assert steps > 3


# --- hundreds of requests -------------------------------------------------------------------------


@pytest.mark.parametrize("reactor", [EpollReactor, WaitReactor])
async def test_random_cancels_leave_nothing(
    reactor: type[EpollReactor | WaitReactor],
) -> None:
    use_reactor(reactor())
    dice = random.Random(7)
    answers: list[Step] = [ask, HELLO[:9], turns, HELLO[9:], ask, HELLO, ask, HELLO[:-3]]
    bodies: list[bytes] = []
    before = descriptors()
    async with WireServer(forever=answers) as server, opened(max_connections=40) as exchange:

        async def one(patience: int) -> None:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def asked() -> None:
                        bodies.append(await body_of(exchange, server))
                        nursery.cancel_scope.cancel()

                    nursery.start_soon(asked)
                    for _ in range(patience):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(one, dice.randrange(400))
        now = connections(exchange)
        assert (exchange.statistics().live, now.waiting, now.open) == (0, 0, now.idle)
        assert now.closed_by_cancel > 10
        assert len(bodies) > 10
        assert set(bodies) == {b"hello"}
        await server.wait_gone(now.opened - now.open)
    await quiet()
    assert descriptors().keys() == before.keys()


async def test_close_ends_live_and_waiting_requests() -> None:
    before = descriptors()
    errors: list[ProviderConnectError] = []
    async with WireServer(forever=[ask, HELLO[:-1]]) as server:
        async with opened(max_connections=20) as exchange:

            async def asked() -> None:
                with pytest.raises(ProviderConnectError, match="the exchange is closed") as caught:
                    await body_of(exchange, server)
                errors.append(caught.value)

            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(asked)
                await server.wait_requests(20)
                await quiet()
                assert connections(exchange).waiting == 30
                await exchange.aclose()
        assert connections(exchange).closed_by_shutdown == 20
        await server.wait_gone(20)
    assert len(errors) == 50
    assert descriptors().keys() == before.keys()


async def test_closing_under_cancellation_closes_all_the_same() -> None:
    async with WireServer([ask, HELLO]) as server, opened() as exchange:
        await body_of(exchange, server)
        with trio.CancelScope() as scope:
            scope.cancel()
            await exchange.aclose()
        assert connections(exchange).open == 0
        await server.wait_gone(1)


def test_run_end_closes_open_connections() -> None:
    before = descriptors()

    async def forgetful() -> None:
        exchange = HttpExchange()
        async with WireServer([ask, HELLO]) as server:
            assert await body_of(exchange, server) == b"hello"
            assert connections(exchange).idle == 1
        exchanges.append(exchange)

    exchanges: list[HttpExchange] = []
    trio.run(forgetful)
    assert descriptors().keys() == before.keys()
    assert connections(exchanges[0]).open == 0


# --- admission ------------------------------------------------------------------------------------


async def test_excess_requests_queue_in_order() -> None:
    order: list[int] = []
    async with (
        WireServer([ask, HELLO] * 4, forever=[ask, HELLO] * 4) as server,
        opened(max_connections=1) as exchange,
    ):

        async def asked(number: int) -> None:
            await exchange.exchange(post(server, b"%d" % number), ByteCollector())
            order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(asked, number)
                await trio.testing.wait_all_tasks_blocked()
        assert order == [0, 1, 2, 3]
        assert [request[-1:] for request in server.requests] == [b"0", b"1", b"2", b"3"]
        assert (server.connections, connections(exchange).reused) == (1, 3)


async def test_limit_holds_and_cancel_frees_place() -> None:
    async with (
        WireServer(forever=[ask, HELLO[:-1]]) as server,
        opened(max_connections=2) as exchange,
    ):
        async with trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in range(5)]

            async def asked(scope: trio.CancelScope) -> None:
                with scope:
                    await body_of(exchange, server)

            for scope in scopes:
                nursery.start_soon(asked, scope)
                await trio.testing.wait_all_tasks_blocked()
            await server.wait_requests(2)
            assert (connections(exchange).open, connections(exchange).waiting) == (2, 3)
            scopes[3].cancel()  # while it is waiting
            scopes[0].cancel()  # while its response arrives
            await server.wait_requests(3)
            await server.wait_gone(1)
            assert (connections(exchange).open, connections(exchange).waiting) == (2, 1)
            nursery.cancel_scope.cancel()
        assert (connections(exchange).open, connections(exchange).waiting) == (0, 0)


async def test_each_origin_has_its_own_bound() -> None:
    async with (
        WireServer([ask, HELLO[:-1]]) as busy,
        WireServer([ask, HELLO]) as other,
        opened(max_connections=1) as exchange,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(body_of, exchange, busy)
        await busy.wait_requests(1)
        assert await body_of(exchange, other) == b"hello"
        nursery.cancel_scope.cancel()

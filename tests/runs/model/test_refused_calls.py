"""A call that an endpoint refuses while it answers others: the call waits with growing pauses."""

from itertools import pairwise

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ProviderDeadlineError, ProviderError, ProviderStatusError
from agent_actors.testing import (
    EndpointRequest,
    ReplyTurn,
    ScriptedEndpoint,
    ScriptedModel,
    Turn,
    fail,
    pause,
    reply,
    say,
    status,
)
from tests.runs.helpers import check_quiet


def refusal(**headers: str) -> ProviderStatusError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ProviderStatusError(endpoint="scripted", status=429, body_message="", headers=names)


async def test_refusal_is_free_while_others_succeed(
    autojump_clock: MockClock,
) -> None:
    # Ten refusals, with another session's response in between: the call only waits for its turn.
    refused = 0

    def answer(request: ModelRequest) -> Turn:
        nonlocal refused
        if request.messages.last_content() == "Others." or refused == 10:
            return "Hello."
        refused += 1
        return [pause(0.4), fail(refusal())]

    agent = AgentOptions(model="m", provider=ScriptedModel(answer))

    async def others() -> None:
        while refused < 10:
            await trio.sleep(0.1)
            await runtime.run("Others.", agent)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await trio.sleep(0.05)
        assert (await runtime.run("Go.", agent)).text == "Hello."
    assert refused == 10


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "a second"])
async def test_waiting_has_bounded_patience(named: bool, autojump_clock: MockClock) -> None:
    asked: list[float] = []

    def answer(request: ModelRequest) -> Turn:
        if request.messages.last_content() != "Go.":
            return "Hello."
        asked.append(trio.current_time() - start)
        headers = {"retry_after": "1"} if named and len(asked) > 4 else {}
        return [pause(0.2), fail(refusal(**headers))]

    agent = AgentOptions(model="m", provider=ScriptedModel(answer))

    async def others() -> None:
        while True:
            await runtime.run("Others.", agent)
            await trio.sleep(1)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        actors = runtime._actors
        actors.services = attrs.evolve(actors.services, chance=lambda: 1.0)
        nursery.start_soon(others)
        start = trio.current_time()
        with pytest.raises(ProviderStatusError, match="429"):
            await runtime.run("Go.", agent)
        # The pauses grow from half a second to a minute; the last attempt comes when the patience
        # ends.
        gaps = [later - before for before, later in pairwise(asked)]
        assert gaps[0] < 3
        assert max(gaps) == pytest.approx(60, abs=3)
        assert 10 <= len(asked) <= 20
        assert asked[-1] == pytest.approx(300, abs=3)
        assert 300 <= trio.current_time() - start < 304
        nursery.cancel_scope.cancel()


async def test_pause_beyond_patience_fails_immediately(
    autojump_clock: MockClock,
) -> None:
    def answer(request: ModelRequest) -> Turn:
        if request.messages.last_content() != "Go.":
            return "Hello."
        late = trio.current_time() - start > 200
        return [pause(0.2), fail(refusal(**({"retry_after": "59"} if late else {})))]

    agent = AgentOptions(model="m", provider=ScriptedModel(answer))

    async def others() -> None:
        while True:
            await runtime.run("Others.", agent)
            await trio.sleep(1)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        actors = runtime._actors
        actors.services = attrs.evolve(actors.services, chance=lambda: 1.0)
        nursery.start_soon(others)
        start = trio.current_time()
        reason = r"429.* asks clients to wait 59 s; a call waits no longer than 300 s in total\)"
        with pytest.raises(ProviderStatusError, match=reason):
            await runtime.run("Go.", agent)
        assert 241 < trio.current_time() - start < 260
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("clients", [200])
async def test_200_sessions_survive_random_refusals(clients: int) -> None:
    def answer(request: EndpointRequest) -> ReplyTurn:
        return status(429) if request.number % 3 == 2 else reply(say("Hel", "lo."))

    turns = 2
    async with ScriptedEndpoint(answer) as endpoint, open_runtime() as runtime:
        agent = AgentOptions(model="m", base_url=endpoint.base_url)

        async def session(name: str) -> None:
            for _ in range(turns):
                result = await runtime.run("Go.", agent, session_id=name)
                assert result.text == "Hello."

        async with trio.open_nursery() as nursery:
            for number in range(clients):
                nursery.start_soon(session, str(number))
        assert len(endpoint.requests) <= 1.6 * clients * turns
        check_quiet(runtime)


async def test_total_refusal_fails_everyone_in_time(
    autojump_clock: MockClock,
) -> None:
    def answer(request: ModelRequest) -> Turn:
        return [pause(0.01), fail(refusal())]

    agent = AgentOptions(model="m", provider=ScriptedModel(answer))
    failed: list[ProviderError] = []

    async def session() -> None:
        try:
            await runtime.run("Go.", agent)
        except ProviderError as error:
            failed.append(error)

    async with open_runtime() as runtime:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(400):
                nursery.start_soon(session)
        assert 300 <= trio.current_time() - start < 310
        check_quiet(runtime)
    late = [error for error in failed if isinstance(error, ProviderDeadlineError)]
    assert len(failed) == 400
    assert {error.kind for error in late} == {"turn"}
    assert "429" in late[0].__notes__[0]

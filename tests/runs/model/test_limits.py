"""Limits on the usage of a run and of a session, as a caller sees them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Prices, Runtime, UsageLimits, open_runtime, tool
from agent_actors.domain.events import ErrorEvent, ResultEvent, UsageEvent
from agent_actors.domain.limits import NO_LIMITS
from agent_actors.domain.usage import Usage
from agent_actors.errors import ConfigError, ProviderConnectError, ProviderStatusError
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import (
    ScriptedModel,
    StepOutcome,
    Turn,
    call,
    cancel_at_every_step,
    fail,
    finish,
    hang,
    pause,
    say,
    usage,
)
from tests.runs.helpers import check_history, check_quiet, check_records
from tests.sweeps import STRIDE

PRICES = Prices(input=2.0, output=10.0)
MILLION = 1_000_000


@tool
async def look(number: int) -> str:
    """Look, for that many seconds."""
    await trio.sleep(number)
    return "seen"


def agent(
    turns: Sequence[Turn] | ScriptedModel,
    limits: UsageLimits = NO_LIMITS,
    session_limits: UsageLimits = NO_LIMITS,
    *,
    prices: Prices | None = None,
    max_retries: int = 0,
) -> AgentOptions:
    return AgentOptions(
        model="m",
        provider=turns if isinstance(turns, ScriptedModel) else ScriptedModel(turns),
        tools=[look],
        limits=limits,
        session_limits=session_limits,
        prices=prices,
        max_retries=max_retries,
    )


def looking(times: int = 1, *, tokens: tuple[int, int] = (10, 5)) -> Turn:
    return [*(call("look", {"number": n}) for n in range(times)), usage(*tokens)]


DONE: Turn = [say("Done."), usage(10, 5)]


@pytest.mark.feature("ASDK-063")
@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (UsageLimits(requests=1), "requests"),
        (UsageLimits(tool_calls=1), "tool_calls"),
        (UsageLimits(input_tokens=10), "input_tokens"),
        (UsageLimits(output_tokens=5), "output_tokens"),
        (UsageLimits(total_tokens=15), "total_tokens"),
        (UsageLimits(cost=70 / MILLION), "cost"),
    ],
)
async def test_limit_ends_run_with_usable_history(
    limits: UsageLimits, what: str, autojump_clock: MockClock
) -> None:
    async with open_runtime() as runtime:
        options = agent([looking(2)], limits, prices=PRICES)
        result = await runtime.run("Go.", options, session_id="s")
        assert result.stop_reason == f"budget:{what}"
        assert result.usage == Usage(10, 5), "a paid response is counted"
        assert result.cost == pytest.approx(70 / MILLION)
        assert len(result.messages.tool_messages()) == 2, "and kept"
        check_history(result.messages)
        check_quiet(runtime)
        again = await runtime.run("Go on.", agent([DONE]), session_id="s")
        assert again.text == "Done."
        check_history(again.messages)


async def test_calls_of_turn_begin_together(autojump_clock: MockClock) -> None:
    model = ScriptedModel([looking(2), looking(2), DONE])
    async with (
        open_runtime() as runtime,
        runtime.stream("Go.", agent(model, UsageLimits(tool_calls=3)), session_id="s") as stream,
    ):
        events = [event async for event in stream]
    result = stream.result
    assert [c.is_error for c in result.tool_calls] == [False, False, True, True]
    assert result.tool_calls[-1].content == "the run's budget is used up: tool_calls"
    assert isinstance(events[-1], ResultEvent)
    assert events[-1].stop_reason == "budget:tool_calls"
    assert [e.tool_calls for e in events if isinstance(e, UsageEvent)] == [2, 0]


async def test_parallel_calls_count_before_starting(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel([looking(20), looking(20), DONE])
    async with open_runtime(tools_per_run=3) as runtime:
        result = await runtime.run("Go.", agent(model, UsageLimits(tool_calls=39)))
        assert [c.is_error for c in result.tool_calls] == [False] * 20 + [True] * 20
        check_quiet(runtime)


async def test_estimated_tokens_count_as_well() -> None:
    async with open_runtime() as runtime:
        options = agent(
            [[say("x" * 400), call("look", {"number": 0})]], UsageLimits(output_tokens=90)
        )
        result = await runtime.run("Go.", options)
    assert result.usage.estimated
    assert result.stop_reason == "budget:output_tokens"


async def test_last_response_may_exceed_limit() -> None:
    async with open_runtime() as runtime:
        options = agent([[say("Done."), usage(10**6, 10)]], UsageLimits(total_tokens=100))
        result = await runtime.run("Go.", options)
    assert (result.text, result.stop_reason) == ("Done.", "completed")


async def test_max_tokens_shrink_to_remainder() -> None:
    cut: Turn = [say("Once upon"), usage(10, 60), finish("length")]
    model = ScriptedModel([looking(tokens=(10, 40)), cut])
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent(model, UsageLimits(output_tokens=100)))
    assert [r.settings.max_tokens for r in model.requests] == [100, 60]
    assert (result.text, result.stop_reason) == ("Once upon", "budget:output_tokens")
    check_history(result.messages)


async def test_cost_limit_needs_prices() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", agent([DONE]))
    assert result.cost is None
    with pytest.raises(ConfigError, match=r"AgentOptions: limits.cost is 1, but no prices are set"):
        agent([], UsageLimits(cost=1))


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (UsageLimits(requests=4), "requests"),
        (UsageLimits(tool_calls=2), "tool_calls"),
        (UsageLimits(input_tokens=40), "input_tokens"),
        (UsageLimits(output_tokens=20), "output_tokens"),
        (UsageLimits(total_tokens=60), "total_tokens"),
        (UsageLimits(cost=280 / MILLION), "cost"),
    ],
)
@pytest.mark.parametrize("reload", [False, True])
async def test_session_runs_share_limits_after_reload(
    limits: UsageLimits, what: str, reload: bool, autojump_clock: MockClock
) -> None:
    store, model = MemoryStore(), ScriptedModel([looking(), DONE, looking(), DONE, looking()])
    options = agent(model, session_limits=limits, prices=PRICES)

    async def run(runtime: Runtime) -> str:
        return (await runtime.run("Go.", options, session_id="s")).stop_reason

    reasons: list[str] = []
    async with open_runtime(store=store) as runtime:
        reasons += [await run(runtime), await run(runtime)]
        if not reload:
            reasons.append(await run(runtime))
    if reload:
        async with open_runtime(store=store) as runtime:
            reasons.append(await run(runtime))
    assert reasons == ["completed", "completed", f"budget:session_{what}"]
    assert len(model.requests) == (5 if what == "tool_calls" else 4)
    check_records(await store.load("s"))
    check_history(fold(await store.load("s")).history())


async def test_another_session_has_limits_of_its_own(autojump_clock: MockClock) -> None:
    options = agent(ScriptedModel(lambda _: DONE), UsageLimits(requests=1), UsageLimits(requests=2))
    reasons: dict[str, list[str]] = {"a": [], "b": [], "c": []}

    async def runs(session_id: str) -> None:
        for _ in range(3):
            result = await runtime.run("Go.", options, session_id=session_id)
            reasons[session_id].append(result.stop_reason)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        for session_id in reasons:
            nursery.start_soon(runs, session_id)
    for seen in reasons.values():
        assert seen == ["completed", "completed", "budget:session_requests"]


async def test_earlier_usage_keeps_its_price() -> None:
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", agent([DONE], prices=PRICES), session_id="s")
        dear = Prices(input=0, output=1000)
        result = await runtime.run("Go.", agent([DONE], prices=dear), session_id="s")
    assert result.cost == pytest.approx(5000 / MILLION), "a result covers only its own run"
    assert fold(await store.load("s")).spent(dear).cost == pytest.approx(5070 / MILLION)


async def test_unawaited_response_counts_for_session(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    model = ScriptedModel([[say("x" * 400), hang()], DONE])
    options = agent(model, session_limits=UsageLimits(output_tokens=100))
    async with open_runtime(store=store) as runtime:
        with trio.move_on_after(5):
            await runtime.run("Go.", options, session_id="s")
        result = await runtime.run("Go.", options, session_id="s")
        assert result.stop_reason == "budget:session_output_tokens"
        assert fold(await store.load("s")).requests == 1


async def test_nested_run_counts_separately(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        child = agent([looking(3, tokens=(900, 90)), DONE], UsageLimits(requests=2))

        @tool
        async def delegate() -> str:
            """Run another agent."""
            return (await runtime.run("Go.", child)).text

        model = ScriptedModel([[call("delegate"), usage(10, 5)], DONE])
        limits = UsageLimits(requests=2, tool_calls=1, total_tokens=100)
        options = attrs.evolve(agent(model, limits), tools=[delegate])
        result = await runtime.run("Go.", options)
    assert (result.text, result.stop_reason) == ("Done.", "completed")
    assert result.usage == Usage(20, 10)


# --- failures -------------------------------------------------------------------------------------

BUSY = fail(ProviderStatusError(endpoint="m", status=500, body_message="busy", headers={}))


async def test_failed_attempts_count_as_requests(
    autojump_clock: MockClock,
) -> None:
    store = MemoryStore()
    options = agent([BUSY, BUSY, DONE], UsageLimits(requests=2), max_retries=5)
    async with (
        open_runtime(store=store) as runtime,
    ):
        with pytest.raises(ProviderStatusError) as caught:
            await runtime.run("Go.", options, session_id="s")
        check_quiet(runtime)
    assert "not retried, since the budget is used up (requests)" in caught.value.__notes__
    records = await store.load("s")
    assert [r.type for r in records][-2:] == ["usage", "error"]
    assert isinstance(records[-1], ErrorEvent)
    assert fold(records).requests == 2
    check_records(records)


async def test_failed_attempts_are_reported_with_response(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    options = agent([BUSY, BUSY, DONE], UsageLimits(requests=3), max_retries=5)
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("Go.", options, session_id="s")
    assert (result.text, result.usage) == ("Done.", Usage(10, 5))
    [usage_record] = [r for r in await store.load("s") if isinstance(r, UsageEvent)]
    assert (usage_record.requests, usage_record.usage) == (3, Usage(10, 5))


async def test_shown_failed_attempt_counts_its_tokens(autojump_clock: MockClock) -> None:
    broken: Turn = [say("x" * 400), fail(ProviderConnectError("broke", endpoint="m"))]
    options = agent([broken, DONE], prices=PRICES, max_retries=5)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
        limited = attrs.evolve(
            options, provider=ScriptedModel([broken, DONE]), limits=UsageLimits(output_tokens=100)
        )
        with pytest.raises(ProviderConnectError) as caught:
            await runtime.run("Go.", limited)
    assert result.usage == Usage(10, 105, estimated=True)
    assert result.cost == pytest.approx((20 + 1050) / MILLION)
    assert caught.value.__notes__ == ["not retried, since the budget is used up (output_tokens)"]


async def test_fallback_request_has_own_price(autojump_clock: MockClock) -> None:
    dear = Prices(input=0, output=100)
    fallback = AgentOptions(model="f", provider=ScriptedModel([DONE]), prices=dear, max_tokens=None)
    options = attrs.evolve(agent([BUSY], prices=PRICES), fallbacks=fallback)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
        limited = attrs.evolve(
            options, provider=ScriptedModel([BUSY]), limits=UsageLimits(requests=1)
        )
        with pytest.raises(ProviderStatusError, match="busy"):
            await runtime.run("Go.", limited)
    assert result.cost == pytest.approx(500 / MILLION)


def test_cancelled_run_records_its_usage() -> None:
    @attrs.define(eq=False)
    class House:
        runtime: Runtime
        store: MemoryStore
        model: ScriptedModel
        options: AgentOptions

    @asynccontextmanager
    async def house() -> AsyncGenerator[House]:
        store = MemoryStore()
        first: Turn = [pause(1), call("look", {"number": 1}), call("look", {"number": 0})]
        model = ScriptedModel(lambda r: DONE if len(r.messages) > 2 else first)
        options = agent(model, UsageLimits(tool_calls=2), UsageLimits(requests=5), prices=PRICES)
        async with open_runtime(store=store) as runtime:
            await runtime.run("The actors are there before.", options, session_id="t")
            model.requests.clear()
            yield House(runtime, store, model, options)

    async def run(house: House) -> object:
        return await house.runtime.run("Go.", house.options, session_id="s")

    async def check(step: int, outcome: StepOutcome[House]) -> None:
        house = outcome.subject
        records = await house.store.load("s")
        if not records:
            return
        check_records(records)
        state = fold(records)
        # A request that was cancelled while it was queued counts, although it was not sent.
        assert 0 <= state.requests - len(house.model.requests) <= 1
        check_history(state.history())

    assert cancel_at_every_step(run, around=house, check=check, stride=STRIDE) > 15

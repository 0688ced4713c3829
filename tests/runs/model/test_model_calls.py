"""Retries after transient failures, slower calls to endpoints that refuse, and fallback models."""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.events import (
    AssistantDelta,
    AttemptRestarted,
    ErrorEvent,
    Event,
    UsageEvent,
)
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.errors import (
    ConfigError,
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderStatusError,
)
from agent_actors.hooks import ModelCall
from agent_actors.testing import (
    EndpointRequest,
    ReplyTurn,
    ScriptedEndpoint,
    ScriptedModel,
    StepOutcome,
    Turn,
    call,
    cancel_at_every_step,
    disconnect,
    fail,
    hang,
    pause,
    reply,
    say,
    status,
)
from tests.runs.helpers import check_history, check_quiet
from tests.sweeps import STRIDE


def broken() -> ProviderConnectError:
    return ProviderConnectError("it broke", endpoint="scripted")


def refusal(code: int = 429, **headers: str) -> ProviderStatusError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ProviderStatusError(endpoint="scripted", status=code, body_message="", headers=names)


def options(*turns: Turn, max_retries: int = 2) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), max_retries=max_retries)


def model_of(agent: AgentOptions) -> ScriptedModel:
    assert isinstance(agent.provider, ScriptedModel)
    return agent.provider


async def events_of(runtime: Runtime, agent: AgentOptions) -> list[Event]:
    async with runtime.stream("Go.", agent, session_id="s") as events:
        return [event async for event in events]


def check_one_answer(runtime: Runtime, text: str) -> None:
    history = runtime.history("s")
    assert history is not None
    check_history(history)
    assert [message.role for message in history] == ["user", "assistant"]
    assert history.last_content() == text
    check_quiet(runtime)


# --- retries ---


@pytest.mark.feature("OAS-113", "ASDK-025")
async def test_transient_failure_is_retried_invisibly(
    autojump_clock: MockClock,
) -> None:
    agent = options(fail(broken()), fail(refusal(503)), "Hello.")
    async with open_runtime() as runtime:
        events = await events_of(runtime, agent)
        assert not [event for event in events if isinstance(event, AttemptRestarted)]
        check_one_answer(runtime, "Hello.")
        (endpoint,) = runtime.statistics().endpoints
        assert (endpoint.attempts, endpoint.retries, endpoint.failures) == (3, 2, 2)


async def test_retry_after_output_announces_restart(
    autojump_clock: MockClock,
) -> None:
    agent = options([say("Hel", "lo wor"), fail(broken())], "Hello.")
    async with open_runtime() as runtime:
        events = await events_of(runtime, agent)
        kinds = [e.type for e in events if isinstance(e, AssistantDelta | AttemptRestarted)]
        assert kinds == ["assistant.delta"] * 2 + ["attempt.restarted"] + ["assistant.delta"] * (
            len(kinds) - 3
        )
        (restarted,) = [e for e in events if isinstance(e, AttemptRestarted)]
        assert restarted.attempt == 2
        assert "it broke" in restarted.reason
        assert restarted.seq is not None
        cut_off = next(e for e in events if isinstance(e, UsageEvent))
        assert (cut_off.usage.output_tokens, cut_off.usage.estimated) == (2, True)
        check_one_answer(runtime, "Hello.")


async def test_final_failure_lists_attempts(
    autojump_clock: MockClock,
) -> None:
    agent = options(*[fail(broken())] * 3, "Hello.")
    async with open_runtime() as runtime:
        with pytest.raises(ProviderConnectError) as caught:
            await runtime.run("Go.", agent)
        assert len(model_of(agent).requests) == 3
        (note,) = caught.value.__notes__
        assert note.startswith("the call made 3 attempts in ")


@pytest.mark.feature("ASDK-025")
@pytest.mark.parametrize("max_retries", [0, -1])
async def test_zero_or_negative_means_no_retry(max_retries: int) -> None:
    agent = options(fail(refusal()), "Hello.", max_retries=max_retries)
    async with open_runtime() as runtime:
        with pytest.raises(ProviderStatusError):
            await runtime.run("Go.", agent)
    assert len(model_of(agent).requests) == 1


async def test_permanent_failure_is_immediate() -> None:
    agent = options(fail(refusal(400)), "Hello.")
    async with open_runtime() as runtime:
        with pytest.raises(ProviderStatusError) as caught:
            await runtime.run("Go.", agent)
    assert not hasattr(caught.value, "__notes__")
    assert len(model_of(agent).requests) == 1


async def test_unknown_provider_exception_is_not_retried() -> None:
    agent = options(fail(ValueError("odd")), "Hello.")
    async with open_runtime() as runtime:
        with pytest.raises(ProviderError, match="the provider raised ValueError: odd"):
            await runtime.run("Go.", agent)
    assert len(model_of(agent).requests) == 1


async def test_attempts_share_one_idempotency_key() -> None:
    keys: list[str] = []

    def answer(request: EndpointRequest) -> ReplyTurn:
        keys.append(request.headers["idempotency-key"])
        return status(500) if request.number in (0, 1) else "Hello."

    async with ScriptedEndpoint(answer) as endpoint, open_runtime() as runtime:
        agent = AgentOptions(model="m", base_url=endpoint.base_url)
        await runtime.run("Go.", agent)
        await runtime.run("Go.", agent)
    assert keys[0] == keys[1] == keys[2] != keys[3]


async def test_fallback_has_its_own_key() -> None:
    async with ScriptedEndpoint([status(400), "Yes."]) as endpoint, open_runtime() as runtime:
        agent = AgentOptions(model="m", base_url=endpoint.base_url, fallbacks=["n"])
        assert (await runtime.run("Go.", agent)).text == "Yes."
        first, second = (request.headers["idempotency-key"] for request in endpoint.requests)
        assert first != second


async def test_repeated_hook_call_has_new_key() -> None:
    async def twice(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        await call_next(request)
        return await call_next(request)

    hooks = {"wrap_model_call": twice}
    async with ScriptedEndpoint(["No.", "Yes."]) as endpoint, open_runtime() as runtime:
        agent = AgentOptions(model="m", base_url=endpoint.base_url, hooks=hooks)
        assert (await runtime.run("Go.", agent)).text == "Yes."
        first, second = (request.headers["idempotency-key"] for request in endpoint.requests)
        assert first != second


async def test_caller_idempotency_key_is_kept() -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint, open_runtime() as runtime:
        own = {"Idempotency-Key": "mine"}
        await runtime.run("Go.", AgentOptions(model="m", base_url=endpoint.base_url, headers=own))
        assert endpoint.requests[0].headers["idempotency-key"] == "mine"


async def test_retry_budget_spans_the_run(
    autojump_clock: MockClock,
) -> None:
    asked = 0

    def flaky(request: ModelRequest) -> Turn:
        nonlocal asked
        asked += 1
        return fail(broken())

    agent = AgentOptions(model="m", provider=ScriptedModel(flaky), max_retries=10**6)
    async with open_runtime() as runtime:
        with pytest.raises(ProviderConnectError):
            await runtime.run("Go.", agent)
    assert asked == 51


async def test_dead_endpoint_gets_few_retries(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(lambda _: fail(broken()))
    agent = AgentOptions(model="m", provider=model)

    async def run() -> None:
        with pytest.raises(ProviderConnectError):
            await runtime.run("Go.", agent)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        for _ in range(600):
            nursery.start_soon(run)
    # Two attempts per run would be 1,200; the little time that passes earns a few retries back.
    assert 600 + 500 <= len(model.requests) < 600 + 560


# --- slower ---


async def test_pause_applies_to_all_sessions(
    autojump_clock: MockClock,
) -> None:
    begun: list[float] = []

    def answer(_: ModelRequest) -> Turn:
        begun.append(trio.current_time() - start)
        return fail(refusal(retry_after="7")) if len(begun) == 1 else [pause(0.5), say("Hello.")]

    agent = AgentOptions(model="m", provider=ScriptedModel(answer))

    async def later() -> None:
        await trio.sleep(1)
        await runtime.run("Go.", agent)

    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(later)
        await runtime.run("Go.", agent)
        assert runtime.statistics().endpoints[0].pace.refusals == 1
    assert begun[0] == 0
    assert begun[1] == pytest.approx(7)  # the refused call goes first
    assert begun[2] == pytest.approx(7.5)  # one call at a time, to find the allowed rate


async def test_long_pause_fails_immediately(
    autojump_clock: MockClock,
) -> None:
    agent = options(fail(refusal(retry_after="61")), "Hello.")
    async with open_runtime() as runtime:
        with pytest.raises(ProviderStatusError) as caught:
            await runtime.run("Go.", agent, session_id="s")
        *_, end = await runtime.sessions.records("s")
    reason = "the endpoint asks clients to wait 61 s; calls do not wait longer than 60 s"
    assert str(caught.value).endswith(f"({reason})")
    assert (caught.value.hint, isinstance(end, ErrorEvent) and end.message) == (
        reason,
        str(caught.value),
    )


@pytest.mark.parametrize("where", ["between tries", "in line"])
async def test_cancel_during_pause_leaves_nothing(where: str, autojump_clock: MockClock) -> None:
    headers = {"retry_after": "30"} if where == "in line" else {}
    agent = options(fail(refusal(429 if headers else 500, **headers)), "Hello.")
    async with open_runtime() as runtime:
        with trio.move_on_after(1e-6 if where == "between tries" else 5) as scope:
            await runtime.run("Go.", agent, session_id="s")
        assert scope.cancelled_caught
        check_quiet(runtime)
        (endpoint,) = runtime.statistics().endpoints
        assert (endpoint.held_back, endpoint.streams.used) == (0, 0)


@asynccontextmanager
async def restless() -> AsyncGenerator[tuple[Runtime, AgentOptions]]:
    """Yield a runtime, and an agent whose model needs three attempts for each response."""

    def answer(_: ModelRequest) -> Turn:
        turns: tuple[Turn, ...] = (
            "Hello.",
            [say("Hel"), fail(broken())],
            fail(refusal(retry_after="1")),
        )
        return turns[len(model.requests) % 3]

    model = ScriptedModel(answer)
    async with open_runtime() as runtime:
        agent = AgentOptions(model="m", provider=model)
        await runtime.run("Before.", agent, session_id="s")
        yield runtime, agent


def test_cancel_at_any_step_leaves_nothing() -> None:
    async def run(around: tuple[Runtime, AgentOptions]) -> None:
        runtime, agent = around
        await runtime.run("Go.", agent, session_id="s")

    async def check(_: int, outcome: StepOutcome[tuple[Runtime, AgentOptions]]) -> None:
        runtime, _agent = outcome.subject
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        check_quiet(runtime)

    assert cancel_at_every_step(run, around=restless, check=check, stride=STRIDE) > 20


# --- fallback models ---


async def test_fallback_takes_over_at_any_point(
    autojump_clock: MockClock,
) -> None:
    first = ScriptedModel([[say("Hal"), fail(broken())]] * 3, name="first")
    second = ScriptedModel(["Hello.", "Again."], name="second")
    agent = AgentOptions(
        model="a", provider=first, fallbacks=AgentOptions(model="b", provider=second)
    )
    async with open_runtime() as runtime:
        events = await events_of(runtime, agent)
        restarts = [e for e in events if isinstance(e, AttemptRestarted)]
        assert [e.attempt for e in restarts] == [2, 3, 4]
        assert "continuing with b" in restarts[-1].reason
        check_one_answer(runtime, "Hello.")
        by_name = {e.endpoint: e for e in runtime.statistics().endpoints}
        assert (by_name["first"].fallbacks, by_name["second"].fallbacks) == (0, 1)
        assert second.requests[0].settings.model == "b"
        # The next run would begin with the first model again, which has no turns left.


async def test_switched_run_does_not_return(autojump_clock: MockClock) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    first = ScriptedModel([fail(refusal(401))], name="first")
    second = ScriptedModel([call("look", {}), "Seen."], name="second")
    agent = AgentOptions(
        model="a",
        provider=first,
        tools=[look],
        fallbacks=[AgentOptions(model="b", provider=second)],
    )
    async with open_runtime() as runtime:
        assert (await runtime.run("Go.", agent)).text == "Seen."
    assert (len(first.requests), len(second.requests)) == (1, 2)


async def test_fallback_may_share_the_endpoint() -> None:
    def answer(request: EndpointRequest) -> ReplyTurn:
        return "Hello." if request.model == "small" else status(404, "no such model")

    async with ScriptedEndpoint(answer) as endpoint, open_runtime() as runtime:
        agent = AgentOptions(model="big", base_url=endpoint.base_url, fallbacks="small")
        assert (await runtime.run("Go.", agent)).text == "Hello."
        assert [request.model for request in endpoint.requests] == ["big", "small"]


async def test_stalled_model_is_replaced(autojump_clock: MockClock) -> None:
    agent = AgentOptions(
        model="a",
        provider=ScriptedModel([[say("Hal"), hang()]]),
        fallbacks=AgentOptions(model="b", provider=ScriptedModel(["Hello."], name="other")),
    )
    async with open_runtime() as runtime:
        assert (await runtime.run("Go.", agent)).text == "Hello."


async def test_last_error_is_raised(
    autojump_clock: MockClock,
) -> None:
    agent = AgentOptions(
        model="a",
        provider=ScriptedModel([fail(refusal(401))]),
        fallbacks=AgentOptions(model="b", provider=ScriptedModel([[hang()]], name="other")),
    )
    async with open_runtime() as runtime:
        with pytest.raises(ProviderDeadlineError, match="other"):
            await runtime.run("Go.", agent)


def test_a_fallback_of_a_fallback_is_refused() -> None:
    inner = AgentOptions(model="b", provider=ScriptedModel([]), fallbacks="c")
    with pytest.raises(ConfigError, match="the fallback 'b' has its own fallbacks"):
        AgentOptions(model="a", provider=ScriptedModel([]), fallbacks=inner)
    with pytest.raises(ConfigError, match="model is missing"):
        AgentOptions(model="a", provider=ScriptedModel([]), fallbacks=[""])


async def test_broken_socket_is_retried() -> None:
    script: Sequence[ReplyTurn] = [reply(say("Hal"), disconnect(reset=True)), "Hello."]
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        events = await events_of(
            runtime, AgentOptions(model="m", base_url=endpoint.base_url, idle_timeout=math.inf)
        )
        assert sum(isinstance(e, AttemptRestarted) for e in events) == 1
        check_one_answer(runtime, "Hello.")

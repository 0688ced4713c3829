"""Guardrails alongside, before and after the model call."""

from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from agent_actors import (
    AgentContext,
    AgentOptions,
    CallbackError,
    Guardrail,
    RunResult,
    open_runtime,
    run,
    tool,
)
from agent_actors.domain.events import AssistantDelta, AssistantMessage, AttemptRestarted, RunEvent
from agent_actors.errors import ConfigError, ProviderConnectError
from agent_actors.testing import ScriptedModel, Turn, call, cancel_at_every_step, fail, hang, say
from agent_actors.testing import pause as paused
from tests.runs.helpers import check_history, check_quiet, check_records


async def refuses(text: str, _: AgentContext) -> str | None:
    await trio.sleep(1)
    return f"{text!r} is not allowed"


async def passes(_: str, __: AgentContext) -> str | None:
    await trio.sleep(1)
    return None


def no_secret(text: str, _: AgentContext) -> str | None:
    return "the response contains a secret" if "secret" in text else None


def agent(*turns: Turn, guardrails: Any, **fields: Any) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), guardrails=guardrails, **fields)


async def streamed(options: AgentOptions) -> tuple[list[tuple[float, RunEvent]], RunResult]:
    """Return the events of a run with the times at which they were read, and its result."""
    found: list[tuple[float, RunEvent]] = []
    async with open_runtime() as runtime:
        async with runtime.stream("go", options, session_id="s") as events:
            started = trio.current_time()
            found += [(trio.current_time() - started, event) async for event in events]
        check_quiet(runtime)
        check_records(await runtime.sessions.records("s"))
    return found, events.result


def deltas(events: list[tuple[float, RunEvent]]) -> list[tuple[float, str]]:
    return [(at, event.text) for at, event in events if isinstance(event, AssistantDelta)]


@pytest.mark.parametrize("withhold", [False, True])
async def test_violation_cancels_parallel_call(withhold: bool, autojump_clock: MockClock) -> None:
    model = ScriptedModel([[say("a"), paused(0.5), say("b"), hang()]])
    options = AgentOptions(
        model="m", provider=model, guardrails=Guardrail(refuses, withhold=withhold)
    )
    events, result = await streamed(options)
    assert result.stop_reason == "blocked:guardrail"
    assert result.duration == 1
    assert (model.live, len(model.requests)) == (0, 1)
    assert deltas(events) == ([] if withhold else [(0, "a"), (0.5, "b")])
    assert not any(isinstance(event, AssistantMessage) for _, event in events)
    assert [(one.hook, one.reason) for one in result.hook_events] == [
        ("refuses", "'go' is not allowed")
    ]
    assert [message.role for message in result.messages] == ["user"]
    assert result.usage.estimated


async def test_call_runs_beside_check(autojump_clock: MockClock) -> None:
    options = agent(
        [say("a"), paused(0.5), say("b"), paused(1), say("c")],
        guardrails=[Guardrail(passes, withhold=True)],
    )
    events, result = await streamed(options)
    assert (result.text, result.duration) == ("abc", 1.5)
    assert deltas(events) == [(1, "a"), (1, "b"), (1.5, "c")]


async def test_tools_wait_for_check(autojump_clock: MockClock) -> None:
    times: list[float] = []

    @tool
    async def work() -> str:
        """Work."""
        times.append(trio.current_time())
        return "worked"

    model = ScriptedModel([[call("work")], [say("done")]])
    blocked = AgentOptions(model="m", provider=model, tools=[work], guardrails=Guardrail(refuses))
    assert (await run("go", blocked)).stop_reason == "blocked:guardrail"
    assert times == []
    started = trio.current_time()
    checked = attrs.evolve(blocked, guardrails=Guardrail(passes))
    model = ScriptedModel([[call("work")], [say("done")]])
    result = await run("go", attrs.evolve(checked, provider=model))
    assert (result.text, times) == ("done", [started + 1])


async def test_blocking_check_precedes_call(autojump_clock: MockClock) -> None:
    model = ScriptedModel([[say("a")]])
    options = AgentOptions(
        model="m", provider=model, guardrails=Guardrail(refuses, mode="blocking")
    )
    assert (await run("go", options)).stop_reason == "blocked:guardrail"
    assert model.requests == []


@pytest.mark.parametrize("withhold", [False, True])
async def test_output_check_refuses_response(withhold: bool, autojump_clock: MockClock) -> None:
    guardrail = Guardrail(no_secret, on="output", withhold=withhold, name="secrets")
    events, result = await streamed(agent([say("a ", "secret")], guardrails=guardrail))
    assert result.stop_reason == "blocked:guardrail"
    assert deltas(events) == ([] if withhold else [(0, "a "), (0, "secret")])
    assert result.text == ""
    assert [message.role for message in result.messages] == ["user"]
    assert result.usage.output_tokens
    events, result = await streamed(agent([say("a ", "word")], guardrails=guardrail))
    assert (result.text, deltas(events)) == ("a word", [(0, "a "), (0, "word")])


async def test_failed_attempt_is_dropped_while_held(autojump_clock: MockClock) -> None:
    lost = ProviderConnectError("the connection broke", endpoint="m")
    options = agent(
        [say("lost"), fail(lost)],
        [say("found"), paused(5)],
        guardrails=Guardrail(no_secret, on="output", withhold=True),
    )
    events, result = await streamed(options)
    assert [text for _, text in deltas(events)] == ["found"]
    assert not any(isinstance(event, AttemptRestarted) for _, event in events)
    assert result.text == "found"


async def never(_: str, __: AgentContext) -> None:
    await trio.sleep_forever()


def raises(_: str, __: AgentContext) -> str:
    raise LookupError("no rules")


def wrong(_: str, __: AgentContext) -> bool:
    return True


@pytest.mark.parametrize("on", ["input", "output"])
@pytest.mark.parametrize(
    ("check", "says"),
    [
        (never, "guardrail 'never' failed: it did not return within 5 s"),
        (raises, "guardrail 'raises' failed: it raised LookupError: no rules"),
        (wrong, "guardrail 'wrong' failed: it returned a value of type bool"),
    ],
)
async def test_failed_check_ends_run(
    on: Any, check: Any, says: str, autojump_clock: MockClock
) -> None:
    options = agent([say("a")], guardrails=Guardrail(check, on=on, withhold=True), hook_timeout=5)
    with pytest.raises(CallbackError, match=says):
        await run("go", options)


async def test_failed_call_cancels_check(autojump_clock: MockClock) -> None:
    lost = ProviderConnectError("the connection broke", endpoint="m")
    options = agent([fail(lost)], guardrails=Guardrail(never), max_retries=0)
    with pytest.raises(ProviderConnectError):
        await run("go", options)


async def test_steering_input_is_checked() -> None:
    checked: list[str] = []

    def note(text: str, _: AgentContext) -> str | None:
        checked.append(text)
        return "stop" if text == "more" else None

    began, steered = trio.Event(), trio.Event()

    @tool
    async def work() -> str:
        """Work."""
        began.set()
        await steered.wait()
        return "worked"

    options = agent([call("work")], [say("a")], guardrails=Guardrail(note), tools=[work])
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def steer() -> None:
            await began.wait()
            nursery.start_soon(runtime.steer, "s", "more")
            await trio.testing.wait_all_tasks_blocked()
            steered.set()

        nursery.start_soon(steer)
        result = await runtime.run("go", options, session_id="s")
    assert result.stop_reason == "blocked:guardrail"
    assert checked == ["go", "more"]


def test_cancelled_run_leaves_valid_session() -> None:
    async def scenario() -> None:
        async with open_runtime() as runtime:
            options = agent(
                [say("a", "b")], guardrails=[Guardrail(slow, withhold=True), Guardrail(slow)]
            )
            try:
                await runtime.run("go", options, session_id="s")
            finally:
                check_quiet(runtime)
                history = runtime.history("s")
                if history is not None:
                    check_history(history)

    async def slow(_: str, __: AgentContext) -> None:
        await trio.lowlevel.checkpoint()

    cancel_at_every_step(scenario)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"check": 3}, "check must be a function; got 3"),
        ({"check": no_secret, "mode": "later"}, "mode must be 'parallel' or 'blocking'; got 'la"),
        ({"check": no_secret, "on": "tools"}, "on must be 'input' or 'output'; got 'tools'"),
    ],
)
def test_invalid_guardrail_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Guardrail(**arguments)


def test_option_accepts_only_guardrails() -> None:
    with pytest.raises(ConfigError, match="must be a Guardrail or a list of them"):
        agent(guardrails=[no_secret])

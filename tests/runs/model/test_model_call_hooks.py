"""Model calls that hooks repeat, replace or refuse.

Readers learn which text no longer counts, and all usage is recorded.
"""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from agent_actors import AgentOptions, UsageLimits, open_runtime
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantMessage,
    AttemptRestarted,
    ResultEvent,
    UsageEvent,
)
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.domain.usage import Usage
from agent_actors.errors import AgentError, HookError, ProviderConnectError
from agent_actors.hooks import AfterModelEvent, Hooks, ModelCall
from agent_actors.runs.model.budget import BudgetExhausted
from agent_actors.testing import ScriptedModel, Turn, fail, say, usage
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import echo


def broken() -> ProviderConnectError:
    return ProviderConnectError("it broke", endpoint="scripted")


async def events_of(*turns: Turn, hooks: Hooks) -> list[AnyEvent]:
    model = ScriptedModel(turns)
    options = AgentOptions(model="m", provider=model, tools=[echo], hooks=hooks, max_retries=0)
    events: list[AnyEvent] = []
    async with open_runtime() as runtime:
        try:
            async with runtime.stream("Go.", options, session_id="s") as stream:
                async for event in stream:
                    events.append(event)  # noqa: PERF401 - kept if the run fails
        except AgentError:
            pass
        check_quiet(runtime)
    return events


def stream_log(events: list[AnyEvent]) -> list[str]:
    """Return the texts, and a mark at each place where the text shown so far becomes void."""
    observed: list[str] = []
    for event in events:
        if isinstance(event, AssistantDelta):
            observed.append(event.text)
        elif isinstance(event, AttemptRestarted):
            observed.append(f"void {event.attempt}")
        elif isinstance(event, AssistantMessage):
            observed.append("message")
    return observed


def used(events: list[AnyEvent]) -> list[tuple[int, int, bool]]:
    records = [event for event in events if isinstance(event, UsageEvent)]
    return [(one.requests, one.usage.output_tokens, one.usage.estimated) for one in records]


async def test_retry_by_hook_restarts_shown_attempt() -> None:
    async def again(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        try:
            return await call_next(request)
        except ProviderConnectError:
            return await call_next(request)

    turns: list[Turn] = [[say("Half of it "), fail(broken())], [say("Whole.")]]
    events = await events_of(*turns, hooks={"wrap_model_call": again})
    assert stream_log(events) == ["Half of it ", "void 2", "Whole.", "message"]
    assert used(events)[0] == (1, 2, True)
    assert len(used(events)) == 2


async def test_second_call_by_hook_pays_both() -> None:
    async def twice(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        first = await call_next(request)
        assert first.text == "One."
        return await call_next(request)

    events = await events_of("One.", "Two.", hooks={"wrap_model_call": twice})
    assert stream_log(events) == ["One.", "void 2", "Two.", "message"]
    records = [event.usage for event in events if isinstance(event, UsageEvent)]
    assert len(records) == 2
    last = events[-1]
    assert isinstance(last, ResultEvent)
    assert last.usage == records[0] + records[1]


async def test_abandoned_usage_survives_replacement() -> None:
    async def instead(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        try:
            return await call_next(request)
        except ProviderConnectError:
            use = ToolUseBlock("call-1", "echo", {"text": "a"})
            return ModelCompleted((use,), "tool_calls", Usage(1, 1))

    turns: list[Turn] = [[say("Half of it "), fail(broken())], "Done."]
    events = await events_of(*turns, hooks={"wrap_model_call": instead})
    assert (2, True) in [(tokens, estimated) for _, tokens, estimated in used(events)]


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "hangs"])
async def test_response_is_paid_despite_hook_failure(
    fails: bool, autojump_clock: MockClock
) -> None:
    async def look(event: AfterModelEvent) -> None:
        if fails:
            raise ValueError("odd")
        await trio.sleep_forever()

    events = await events_of("Hello there.", hooks={"after_model": look})
    [(requests, tokens, _)] = used(events)
    assert requests == 1
    assert tokens > 0


# --- repeated calls ---


@pytest.mark.parametrize("swallows", [False, True], ids=["lets it pass", "goes on without"])
async def test_hook_calls_model_once_at_time(swallows: bool) -> None:
    refused: list[str] = []

    async def both(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        answers: list[ModelCompleted] = []

        async def ask() -> None:
            try:
                answers.append(await call_next(request))
            except HookError as error:
                refused.append(str(error))
                if not swallows:
                    raise

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
        return answers[0]

    model = ScriptedModel([say("One.", "Two."), "Never."])
    options = AgentOptions(model="m", provider=model, hooks={"wrap_model_call": both})
    async with open_runtime() as runtime:
        if swallows:
            result = await runtime.run("Go.", options, session_id="s")
            assert result.text == "One.Two."
            assert result.hook_events == ()
        else:
            with pytest.raises(
                HookError, match="hook both in wrap_model_call: the hook called call_next"
            ):
                await runtime.run("Go.", options, session_id="s")
        check_quiet(runtime)
    assert len(model.requests) <= 1  # none if the refusal came before the request
    assert len(refused) == 1
    assert "make one call after the other" in refused[0]


async def test_leftover_task_cannot_call_model(
    nursery: trio.Nursery,
) -> None:
    ended = trio.Event()
    observed: list[str] = []

    async def leaves(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        async def late() -> None:
            await ended.wait()
            with pytest.raises(HookError, match="after it had ended") as caught:
                await call_next(request)
            observed.append(caught.value.phase)

        nursery.start_soon(late)
        return await call_next(request)

    model = ScriptedModel(["One."])
    options = AgentOptions(model="m", provider=model, hooks={"wrap_model_call": leaves})
    async with open_runtime() as runtime:
        assert (await runtime.run("Go.", options)).text == "One."
        ended.set()
        await trio.testing.wait_all_tasks_blocked()
    assert observed == ["wrap_model_call"]
    assert len(model.requests) == 1


async def test_exception_group_of_hook_is_reported() -> None:
    async def odd(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        raise ExceptionGroup("odd", [ValueError("odd")])

    model = ScriptedModel(["One."])
    options = AgentOptions(model="m", provider=model, hooks={"wrap_model_call": odd})
    async with open_runtime() as runtime:
        with pytest.raises(HookError, match="raised ExceptionGroup"):
            await runtime.run("Go.", options)


def renewed(request: ModelRequest) -> ModelRequest:
    """Return an equal request, as a hook would that builds its own request."""
    return ModelRequest(request.messages, request.settings)


@pytest.mark.parametrize("own", [False, True], ids=["the same", "one of its own"])
@pytest.mark.parametrize("whose", ["run", "session"])
async def test_repeated_call_needs_budget(own: bool, whose: str) -> None:
    async def again(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        while True:
            await call_next(renewed(request) if own else request)

    model = ScriptedModel(["One.", "Two.", "Three.", "Four."])
    limits = UsageLimits(requests=3)
    options = AgentOptions(
        model="m",
        provider=model,
        hooks={"wrap_model_call": again},
        limits=limits if whose == "run" else UsageLimits(),
        session_limits=limits if whose == "session" else UsageLimits(),
    )
    events: list[AnyEvent] = []
    async with open_runtime() as runtime:
        async with runtime.stream("Go.", options, session_id="s") as stream:
            events += [event async for event in stream]
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        check_quiet(runtime)
    last = events[-1]
    assert isinstance(last, ResultEvent)
    assert last.stop_reason == ("budget:requests" if whose == "run" else "budget:session_requests")
    assert len(model.requests) == 3
    # All three were paid for. The third was shown and not voided, but is not part of the history.
    assert stream_log(events) == ["One.", "void 2", "Two.", "void 3", "Three."]
    assert sum(requests for requests, _, _ in used(events)) == 3
    assert [message.role for message in history] == ["user"]


async def test_tokens_count_before_repeated_call() -> None:
    async def again(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        first = await call_next(request)
        with pytest.raises(BudgetExhausted, match="output_tokens"):
            await call_next(request)
        return first

    model = ScriptedModel([[say("One."), usage(1, 9)], "Two."])
    options = AgentOptions(
        model="m",
        provider=model,
        hooks={"wrap_model_call": again},
        limits=UsageLimits(output_tokens=9),
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
    # A hook may keep the first response: none of its text becomes void.
    assert result.text == "One."
    assert result.stop_reason == "completed"
    assert result.usage.output_tokens == 9

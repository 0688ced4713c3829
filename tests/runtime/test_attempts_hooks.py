"""Model calls that hooks make again, replace or refuse: nothing is shown as if it still counted,
and whatever was used is on record."""

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantMessage,
    AttemptRestarted,
    ResultEvent,
    UsageEvent,
)
from agent_actors.domain.model import ModelFinished, ModelRequest
from agent_actors.domain.usage import Usage
from agent_actors.errors import AgentError, ProviderConnectError
from agent_actors.hooks import AfterModelEvent, Hooks, ModelCall
from agent_actors.testing import ScriptedModel, Turn, fail, say
from tests.runtime.hookkit import echo
from tests.runtime.joinkit import check_quiet


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
                    events.append(event)  # noqa: PERF401 - kept when the run fails
        except AgentError:
            pass
        check_quiet(runtime)
    return events


def shown(events: list[AnyEvent]) -> list[str]:
    """The texts, and where what was shown is void."""
    told: list[str] = []
    for event in events:
        if isinstance(event, AssistantDelta):
            told.append(event.text)
        elif isinstance(event, AttemptRestarted):
            told.append(f"void {event.attempt}")
        elif isinstance(event, AssistantMessage):
            told.append("message")
    return told


def used(events: list[AnyEvent]) -> list[tuple[int, int, bool]]:
    records = [event for event in events if isinstance(event, UsageEvent)]
    return [(one.requests, one.usage.output_tokens, one.usage.estimated) for one in records]


async def test_a_hook_that_asks_again_after_a_failure_voids_what_was_shown() -> None:
    async def again(request: ModelRequest, call_next: ModelCall) -> ModelFinished:
        try:
            return await call_next(request)
        except ProviderConnectError:
            return await call_next(request)

    turns: list[Turn] = [[say("Half of it "), fail(broken())], [say("Whole.")]]
    events = await events_of(*turns, hooks={"wrap_model_call": again})
    assert shown(events) == ["Half of it ", "void 2", "Whole.", "message"]
    assert used(events)[0] == (1, 2, True)
    assert len(used(events)) == 2


async def test_a_hook_that_asks_twice_voids_the_first_answer_and_pays_for_both() -> None:
    async def twice(request: ModelRequest, call_next: ModelCall) -> ModelFinished:
        first = await call_next(request)
        assert first.text == "One."
        return await call_next(request)

    events = await events_of("One.", "Two.", hooks={"wrap_model_call": twice})
    assert shown(events) == ["One.", "void 2", "Two.", "message"]
    records = [event.usage for event in events if isinstance(event, UsageEvent)]
    assert len(records) == 2
    last = events[-1]
    assert isinstance(last, ResultEvent)
    assert last.usage == records[0] + records[1]


async def test_what_was_cut_off_is_on_record_though_a_hook_answers_in_its_place() -> None:
    async def instead(request: ModelRequest, call_next: ModelCall) -> ModelFinished:
        try:
            return await call_next(request)
        except ProviderConnectError:
            use = ToolUseBlock("call-1", "echo", {"text": "a"})
            return ModelFinished((use,), "tool_calls", Usage(1, 1))

    turns: list[Turn] = [[say("Half of it "), fail(broken())], "Done."]
    events = await events_of(*turns, hooks={"wrap_model_call": instead})
    assert (2, True) in [(tokens, estimated) for _, tokens, estimated in used(events)]


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "hangs"])
async def test_an_answer_is_paid_for_though_a_hook_that_looks_at_it_fails(
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

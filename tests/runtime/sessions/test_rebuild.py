"""Messages rebuilt from events, and imports of bare events."""

import math

import pytest

from agent_actors import Messages, open_runtime
from agent_actors.domain.blocks import TextBlock, ToolUseBlock
from agent_actors.errors import ConfigError, InvalidEventError
from agent_actors.events import (
    AssistantDelta,
    AssistantMessage,
    Event,
    SessionRewind,
    ToolResult,
    UserMessage,
    bare_event,
    rebuild_messages,
)
from tests.runs.helpers import check_history


def conversation(turns: int) -> list[Event]:
    events: list[Event] = []
    for turn in range(turns):
        call = ToolUseBlock(f"c{turn}", "look", {})
        events += (
            bare_event(UserMessage, text=f"question {turn}"),
            bare_event(AssistantDelta, text="answer"),
            bare_event(AssistantMessage, blocks=(call,)),
            bare_event(ToolResult, tool_use_id=call.id, name="look", content="seen"),
            bare_event(AssistantMessage, blocks=(TextBlock(f"answer {turn}"),)),
        )
    return events


@pytest.mark.feature("OAGS-098")
def test_rebuilt_messages_keep_limits() -> None:
    events = conversation(5)
    complete = rebuild_messages(events)
    check_history(complete)
    assert len(complete) == 20
    for limit in range(1, 22):
        found = rebuild_messages(events, max_events=limit)
        check_history(found)
        assert 4 <= len(found) <= max(limit, 4)
        assert found.as_tuple()[-4:] == complete.as_tuple()[-4:]
        assert found.as_tuple()[0].role == "user"
    few = rebuild_messages(events, math.inf, max_bytes=1_000)
    assert 4 <= len(few) < 20
    assert rebuild_messages([]) == Messages()


def test_rebuilt_messages_close_open_calls() -> None:
    events = conversation(1)[:3]
    found = rebuild_messages(events)
    check_history(found)
    assert [message.role for message in found] == ["user", "assistant", "tool"]


def test_rebuilt_messages_follow_rewinds() -> None:
    events = [*conversation(2), bare_event(SessionRewind, to_seq=4)]
    assert rebuild_messages(events) == rebuild_messages(conversation(1))


@pytest.mark.parametrize("limits", [(0, 1), (1, 0), (math.nan, 1)])
def test_invalid_limits_are_refused(limits: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        rebuild_messages([], *limits)


async def test_bare_lines_are_imported() -> None:
    second = '{"type":"notification","text":"x","seq":2}'
    async with open_runtime() as runtime:
        lines = ['{"type":"user.message","text":"hi"}', second]
        session_id = await runtime.sessions.import_records(lines)
        stored = await runtime.sessions.records(session_id)
        records = [one for one in stored if isinstance(one, Event)]
        assert [one.seq for one in records] == [1, 2, 3]
        assert {one.session_id for one in records} == {session_id}
        assert len({one.id for one in records}) == 3
        assert all(one.ts and one.run_id and one.request_id for one in records)
        assert await runtime.sessions.check(session_id) == ()
        with pytest.raises(InvalidEventError, match="not the records of a session"):
            await runtime.sessions.import_records([*lines, second], session_id="named")

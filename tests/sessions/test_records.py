"""The records that a session gets before a run begins."""

from functools import partial
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.openai_messages import messages_to_openai
from agent_actors.domain.blocks import ImageBlock, TextBlock, ToolUseBlock
from agent_actors.domain.events import (
    AssistantMessage,
    EventBuilder,
    EventScope,
    Notification,
    SessionRewind,
    ToolResult,
    UserMessage,
)
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import ConfigError, InvalidEventError, MessageError
from agent_actors.sessions import UNFINISHED, SessionState
from agent_actors.sessions.metadata import run_metadata
from agent_actors.sessions.records import (
    NO_RESULT,
    as_records,
    opening,
    recordable,
    records_before_run,
    seen_after,
)
from agent_actors.testing.strategies import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_actors.domain.json import JsonValue

SCOPE = EventScope("s", "r", "q")
UNTYPED = cast("Callable[..., object]", Notification)
CALLS = (ToolUseBlock("a", "add", {}), ToolUseBlock("b", "add", {}))
ASKED = Messages().user("?").assistant("", CALLS)


def recorded(state: SessionState, drafts: list[EventBuilder]) -> SessionState:
    for seq, draft in enumerate(drafts, state.last_seq + 1):
        state.apply(draft(SCOPE, "", 0.0, seq=seq))
    return state


def test_a_session_without_open_calls_needs_nothing() -> None:
    assert opening(SessionState(), None) == []
    assert opening(seen_after(Messages().user("?").assistant("!")), None) == []


def test_known_results_close_calls() -> None:
    state = seen_after(ASKED)
    found = partial(ToolResult, tool_use_id="b", name="add", content="4")
    drafts = records_before_run(state, None, from_client=False, resumes=False, known={"b": found})
    closed = [draft(SCOPE, "", 0.0, seq=9) for draft in drafts]
    assert [one.content for one in closed if isinstance(one, ToolResult)] == [UNFINISHED, "4"]


def test_images_of_responses_are_kept() -> None:
    said = (TextBlock("Look"), ImageBlock("https://x/y.png"))
    assert seen_after(Messages().user("?").assistant(said)).history()[-1].blocks == said


def test_open_calls_close_in_model_order() -> None:
    state = seen_after(ASKED.tool("a", "add", "1"))
    (closing,) = [draft(SCOPE, "", 0.0, seq=9) for draft in opening(state, None)]
    assert isinstance(closing, ToolResult)
    assert (closing.tool_use_id, closing.is_error, closing.synthetic) == ("b", True, True)
    assert recorded(state, opening(state, None)).open_calls == ()
    assert state.history()[-1].content == NO_RESULT


def test_assigned_conversation_replaces_history() -> None:
    state = seen_after(Messages().user("old").assistant("older"))
    new = Messages().user("new").assistant("newer")
    drafts = opening(state, new)
    assert isinstance(drafts[0](SCOPE, "", 0.0, seq=3), SessionRewind)
    assert recorded(state, drafts).history() == new


def test_open_calls_of_conversation_are_closed() -> None:
    state = recorded(SessionState(), opening(SessionState(), ASKED))
    assert state.open_calls == ()
    assert [message.role for message in state.history()] == ["user", "assistant", "tool", "tool"]


def test_refusal_stays_a_refusal() -> None:
    spoken = Messages([Message("assistant", (TextBlock("No."),), refused=True)]).assistant("Yes.")
    made = [draft(SCOPE, "", 0.0, seq=1) for draft in as_records(spoken)]
    reasons = [event.finish_reason for event in made if isinstance(event, AssistantMessage)]
    assert reasons == ["refusal", "stop"]


def test_callers_record_copies_of_some_types() -> None:
    def no_event(*args: object, **fields: object) -> str:
        return "text"

    data: list[JsonValue] = [1]
    checked = recordable(partial(Notification, text="n", data=data))
    data.append(2)
    assert checked(SCOPE, "i", 1.0, seq=3) == Notification(SCOPE, "i", 1.0, "n", [1], seq=3)
    with pytest.raises(
        ConfigError,
        match="only todos, files, skills and notifications may be recorded; got UserMess",
    ):
        recordable(partial(UserMessage, text="no"))
    with pytest.raises(InvalidEventError, match="expected an event without its header"):
        recordable(cast("EventBuilder", partial(UNTYPED, txt="no")))
    with pytest.raises(InvalidEventError, match="it returned 'text'"):
        recordable(cast("EventBuilder", no_event))


@pytest.mark.parametrize("parent", [None, ("p", "c")])
def test_metadata_describe_the_run(parent: tuple[str, str] | None) -> None:
    found = run_metadata(
        cwd="/",
        provider_name="p",
        model="m",
        setting_sources=("project",),
        allowed_tools=("t",),
        agent_name="a",
        parent=parent,
    )
    of_run = {
        "cwd": "/",
        "provider_name": "p",
        "model": "m",
        "setting_sources": ["project"],
        "allowed_tools": ["t"],
        "agent_name": "a",
    }
    nested = {"parent_session_id": "p", "parent_tool_use_id": "c"}
    assert found == (of_run if parent is None else of_run | nested)


def test_invalid_message_is_named_by_position() -> None:
    with pytest.raises(MessageError, match=r"message 1: a system message .* beginning"):
        seen_after(Messages().user("?").system("late"))
    with pytest.raises(MessageError, match=r"message 0: .* empty"):
        seen_after(Messages().user(" "))


@given(messages(with_system=False), st.integers(0, 20))
def test_any_fragment_is_made_valid(spoken: Messages, cut: int) -> None:
    state = seen_after(Messages().user("old"))
    recorded(state, opening(state, spoken[cut:]))
    check_pairs(state.history())
    assert state.open_calls == ()


@given(messages(with_system=False))
def test_complete_conversation_is_kept(spoken: Messages) -> None:
    kept = messages_to_openai(seen_after(spoken).history())
    drawn = messages_to_openai(spoken)
    # Results may come in any order; they are kept in the order of the model's calls.
    assert [m for m in kept if m["role"] != "tool"] == [m for m in drawn if m["role"] != "tool"]
    assert sorted(map(str, kept)) == sorted(map(str, drawn))


def check_pairs(history: Messages) -> None:
    waiting: list[str] = []
    for message in history:
        if message.role == "tool":
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call.id for call in message.tool_calls]
    assert not waiting

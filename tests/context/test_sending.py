"""The part of a history that is sent: valid, encodable, and without refused responses."""

import json
from itertools import pairwise
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.context.resume_window import ResumeWindow
from agent_actors.context.sending import messages_to_send
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ModelRequest, ModelSettings
from agent_actors.providers.anthropic.encode import EncodeOptions
from agent_actors.providers.anthropic.encode import encode_request as encode_messages
from agent_actors.providers.openai_chat.encode import encode_request as encode_chat
from agent_actors.testing import strategies


@st.composite
def histories(draw: st.DrawFn) -> Messages:
    """Generate valid conversations in which any response may have been refused."""
    found: list[Message] = []
    for message in draw(strategies.messages(with_system=False)):
        refused = message.role == "assistant" and draw(st.booleans())
        found.append(Message(message.role, message.blocks, refused=refused))
    return Messages([*found, Message("user", Messages().user("Go on.")[0].blocks)])


WINDOWS = st.builds(ResumeWindow, st.integers(1, 12) | st.just(float("inf")))


@given(histories(), WINDOWS)
def test_sent_history_is_valid_without_refusals(history: Messages, window: ResumeWindow) -> None:
    sent = messages_to_send(history, window, EncodedMessageCache())
    assert not any(message.refused for message in sent)
    assert sent[-1] is history[-1]
    if window.max_events == float("inf"):
        assert sent.user_messages() == history.user_messages()
    body = json.loads(encode_messages(request(sent), EncodeOptions()))
    roles = [turn["role"] for turn in cast("list[dict[str, str]]", body["messages"])]
    assert all(one != other for one, other in pairwise(roles))
    assert roles[0] == "user"
    assert_chat(json.loads(encode_chat(request(sent)))["messages"])


def assert_chat(messages: list[dict[str, object]]) -> None:
    """Check that each call is answered directly after it, and that there are no other results."""
    open_calls: set[object] = set()
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            continue
        assert not open_calls
        calls = cast("list[dict[str, object]]", message.get("tool_calls") or [])
        open_calls = {one["id"] for one in calls}
    assert not open_calls


@given(histories())
def test_profile_may_have_refusals_sent(history: Messages) -> None:
    sent = messages_to_send(
        history, ResumeWindow(float("inf")), EncodedMessageCache(), resend_refused=True
    )
    assert sent is history


def request(messages: Messages) -> ModelRequest:
    return ModelRequest(messages, ModelSettings("m"))

"""Only the newest part of a long session is sent, and calls stay together with their results."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.session_lines import size_of
from agent_actors.context.resume_window import _AROUND, ResumeWindow, _largest_size
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Messages
from agent_actors.testing.strategies import messages as conversations


def talk(shape: str) -> Messages:
    """Build messages: `u` is a prompt, `a` a response, and a digit that many calls with results."""
    messages = Messages()
    for at, kind in enumerate(shape):
        if kind == "u":
            messages = messages.user(f"u{at}")
        elif kind == "a":
            messages = messages.assistant(f"a{at}")
        else:
            ids = [f"c{at}.{n}" for n in range(int(kind))]
            messages = messages.assistant("", [ToolUseBlock(one, "t", {}) for one in ids])
            for one in ids:
                messages = messages.tool(one, "t", f"r{one}")
    return messages


def sent(messages: Messages, *, events: float = math.inf, size: float = math.inf) -> Messages:
    return ResumeWindow(events, size).apply(messages, EncodedMessageCache())


def contents(messages: Messages) -> list[str]:
    return [message.content or "calls" for message in messages]


@given(conversations(), st.integers(min_value=-1, max_value=1))
def test_limit_counts_exact_bytes(messages: Messages, more: int) -> None:
    limit = sum(map(size_of, messages)) + more
    kept = sent(messages, size=limit)
    assert (kept is messages) is (more >= 0 or not messages)


@given(conversations())
def test_bound_is_never_below_size(messages: Messages) -> None:
    for message in messages:
        assert sum(map(_largest_size, message.blocks)) + _AROUND >= size_of(message)


def test_short_history_is_sent_unchanged() -> None:
    messages = talk("ua2u")
    assert sent(messages, events=len(messages), size=sum(map(size_of, messages))) is messages
    assert sent(messages) is messages
    assert sent(Messages(), events=1, size=1) == Messages()


@pytest.mark.feature("OAGS-095")
def test_newest_messages_fit_message_limit() -> None:
    assert ResumeWindow().max_events == 1000
    assert contents(sent(talk("uauauau"), events=5)) == ["u2", "a3", "u4", "a5", "u6"]
    long = talk("ua" * 700 + "u")
    assert sent(long, events=1000) == long[-999:], "the sent part begins with a prompt"


@pytest.mark.feature("OAGS-096")
def test_newest_messages_fit_byte_limit() -> None:
    assert ResumeWindow().max_bytes == 2_000_000
    messages = talk("uauauau")
    room = sum(map(size_of, messages[2:]))
    assert sent(messages, size=room) == messages[2:]
    assert sent(messages, size=room - 1) == messages[4:]


def test_last_user_turn_is_always_sent() -> None:
    messages = talk("uau2")
    assert sent(messages, events=1) == messages[2:]
    assert sent(messages, size=1) == messages[2:]


def test_call_and_result_stay_together() -> None:
    messages = talk("u3u")
    for events in range(1, 6):
        assert sent(messages, events=events) == messages[-1:]
    assert sent(messages, events=6) is messages


def test_long_tool_chain_keeps_its_prompt() -> None:
    messages = talk("uau1111u")
    kept = sent(messages, events=6)
    assert kept == Messages([messages[2], *messages[-5:]])
    assert contents(kept)[0] == "u2"


def test_history_without_prompt_is_cut_too() -> None:
    messages = talk("aaa")
    assert sent(messages, events=2) == messages[1:]
    assert sent(messages, size=1) == Messages()
    assert sent(talk("1aau"), events=3) == talk("1aau")[2:]


def the_most(messages: Messages, events: float, size: float) -> Messages:
    """Try each possible cut, beginning with the one that keeps the most."""
    words = [at for at, one in enumerate(messages) if one.role == "user"]
    own = words[-1] if words else len(messages)
    for start in range(own):
        if messages[start].role == "tool":
            continue
        before = [at for at in words if at < start] if messages[start].role != "user" else []
        kept = Messages([*(messages[at] for at in before[-1:]), *messages[start:]])
        if len(kept) <= events and sum(map(size_of, kept)) <= size:
            return kept
    return messages[own:]


@given(
    st.text(alphabet="ua123", max_size=30),
    st.integers(1, 40) | st.just(math.inf),
    st.integers(1, 1500) | st.just(math.inf),
)
def test_window_is_valid_and_maximal(shape: str, events: float, size: float) -> None:
    messages = talk(shape)
    kept = sent(messages, events=events, size=size)
    word = max((at for at, one in enumerate(messages) if one.role == "user"), default=len(messages))
    own = len(messages) - word
    assert kept == the_most(messages, events, size)
    if kept != messages[word:]:
        assert len(kept) <= events
        assert sum(map(size_of, kept)) <= size
    assert kept[len(kept) - own :] == messages[word:], "the newest messages are kept"
    open_ids: list[str] = []
    for message in kept:
        if message.role == "tool":
            assert message.tool_call_id == open_ids.pop(0)
            continue
        assert not open_ids
        open_ids = [call.id for call in message.tool_calls]
    if "u" in shape:
        assert (
            not kept
            or kept[0].role == "user"
            or messages[: len(messages) - len(kept)].by_role("user") == Messages()
        )


@pytest.mark.parametrize("shape", ["uau11111u", "u2a3u", "1u1au"])
def test_window_is_maximal_for_any_limit(shape: str) -> None:
    messages = talk(shape)
    for size in range(1, sum(map(size_of, messages)) + 2):
        assert sent(messages, size=size) == the_most(messages, math.inf, size)
    for events in range(1, len(messages) + 2):
        assert sent(messages, events=events) == the_most(messages, events, math.inf)


def test_measured_sizes_are_reused() -> None:
    memo, recall = EncodedMessageCache(), ResumeWindow(100, 100_000)
    messages = talk("ua" * 40)
    recall.apply(messages, memo)
    again = memo.map("recall.size", messages, lambda _: -1)
    assert again == [size_of(message) for message in messages]

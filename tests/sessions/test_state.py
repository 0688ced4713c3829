"""The fold of a session's records is a history that is always valid."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    AssistantBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    EventScope,
    Notification,
    ResultEvent,
    ToolResult,
    ToolUse,
    UnknownEvent,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.limits import Prices, Spent
from agent_actors.domain.messages import Messages
from agent_actors.domain.usage import Usage
from agent_actors.sessions import UNFINISHED, SessionState, fold

SCOPE = EventScope("s", "r", "q")


def said(text: str) -> UserMessage:
    return UserMessage(SCOPE, "id", 1.0, text)


def answered(*blocks: AssistantBlock) -> AssistantMessage:
    return AssistantMessage(SCOPE, "id", 1.0, blocks)


def gave(call_id: str, text: str = "fine") -> ToolResult:
    return ToolResult(SCOPE, "id", 1.0, call_id, "tool", text)


def use(call_id: str) -> ToolUseBlock:
    return ToolUseBlock(call_id, "tool", {})


def numbered(*records: AnyEvent) -> list[AnyEvent]:
    return [
        attrs.evolve(record, seq=seq) if not isinstance(record, UnknownEvent) else record
        for seq, record in enumerate(records, 1)
    ]


def check(history: Messages) -> None:
    """Check that all messages are valid and that each call is answered once, in order."""
    history.validate()
    expected: list[str] = []
    for message in history:
        if message.role == "tool":
            assert expected
            assert message.tool_call_id == expected.pop(0)
        else:
            assert not expected
            expected = [call.id for call in message.tool_calls]
    assert not expected


@pytest.mark.feature("ASDK-035")
def test_results_follow_model_order() -> None:
    state = fold(numbered(said("go"), answered(use("a"), use("b")), gave("b"), gave("a")))
    assert [m.tool_call_id for m in state.history().tool_messages()] == ["a", "b"]
    check(state.history())


def test_open_call_gets_synthetic_error() -> None:
    state = fold(numbered(said("go"), answered(use("a"), use("b")), gave("b")))
    history = state.history()
    check(history)
    assert [m.content for m in history.tool_messages()] == [UNFINISHED, "fine"]
    state.apply(gave("a", "late, and in time"))
    assert [m.content for m in state.history().tool_messages()] == ["late, and in time", "fine"]


def test_next_message_closes_open_calls() -> None:
    for later in (said("never mind"), answered(TextBlock("So."))):
        state = fold(numbered(said("go"), answered(use("a")), later, gave("a", "too late")))
        check(state.history())
        assert [m.content for m in state.history().tool_messages()] == [UNFINISHED]


@pytest.mark.feature("OAS-067")
def test_broken_call_has_empty_arguments() -> None:
    broken = ToolUseError("not JSON", '{"a', "x", "")
    state = fold(numbered(said("go"), answered(broken), gave("x", "not JSON")))
    check(state.history())
    [call] = state.history()[1].tool_calls
    assert (call.id, call.name, call.input) == ("x", "invalid_tool_call", {})


@pytest.mark.parametrize("blocks", [(), (ThinkingBlock("hm"),), (TextBlock(""),)])
def test_empty_response_counts_as_turn(
    blocks: tuple[TextBlock | ThinkingBlock, ...],
) -> None:
    state = fold(numbered(said("go"), answered(*blocks)))
    assert [message.role for message in state.history()] == ["user"]
    assert state.turns == 1


def test_a_user_message_of_blocks_keeps_them() -> None:
    blocks = (TextBlock("see "), TextBlock("this"))
    state = fold(numbered(UserMessage(SCOPE, "id", 1.0, "see this", blocks)))
    assert state.history()[0].blocks == blocks


def test_usage_ids_seq_and_time_persist() -> None:
    usage = Usage(3, 4)
    state = fold(
        numbered(
            said("go"),
            answered(use("a")),
            UsageEvent(SCOPE, "id", 9.0, usage, usage),
            UsageEvent(SCOPE, "id", 2.0, usage, usage),
        )
    )
    assert state.usage == Usage(6, 8)
    assert state.call_ids == {"a"}
    assert (state.last_seq, state.last_ts) == (4, 9.0)


def usage_event(usage: Usage, **fields: Any) -> UsageEvent:
    return UsageEvent(SCOPE, "id", 1.0, usage, usage, **fields)


def test_requests_calls_and_cost_add_up() -> None:
    state = fold(
        numbered(
            usage_event(Usage(10, 5), requests=3, tool_calls=2, cost=0.25),
            usage_event(Usage(20, 1), tool_calls=1, cost=0.5),
            usage_event(Usage(0, 7, estimated=True)),
        )
    )
    usage = Usage(30, 13, estimated=True)
    assert state.spent(None) == Spent(5, 3, usage, 0.75)


def test_unpriced_usage_uses_current_prices() -> None:
    prices = Prices(input=1_000_000, output=0)
    assert fold([usage_event(Usage(10, 5))]).spent(prices).cost == 10
    mixed = fold([usage_event(Usage(10, 5), cost=3.0), usage_event(Usage(20, 5))])
    assert mixed.spent(prices).cost == 23
    priced = fold([usage_event(Usage(10, 5), cost=3.0), usage_event(Usage(20, 5), cost=4.0)])
    assert priced.spent(prices).cost == 7
    assert mixed.spent(None).cost == 3


def test_future_event_moves_seq_only() -> None:
    state = fold([UnknownEvent({"type": "new.thing", "seq": 7, "ts": 3.5})])
    assert (state.last_seq, state.last_ts) == (7, 3.5)
    assert len(state.history()) == 0


def test_a_live_event_does_not_move_seq() -> None:
    state = SessionState()
    state.apply(Notification(SCOPE, "id", 1.0, "hello"))
    assert state.last_seq == 0


@pytest.mark.feature("ASDK-043")
def test_returned_history_is_immutable() -> None:
    state = fold(numbered(said("go")))
    before = state.history()
    state.apply(answered(TextBlock("Hello.")))
    assert len(before) == 1
    assert len(state.history()) == 2


ids = st.sampled_from("abc")
calls = st.builds(use, ids) | st.builds(ToolUseError, st.just("no"), st.none(), ids)


def _distinct(blocks: list[ToolUseBlock | ToolUseError]) -> AssistantMessage:
    return answered(TextBlock("x"), *{block.id: block for block in blocks}.values())


records = st.lists(
    st.one_of(
        st.builds(said, st.sampled_from(["go", "on"])),
        st.builds(_distinct, st.lists(calls, max_size=3)),
        st.builds(gave, ids),
        st.just(ResultEvent(SCOPE, "id", 1.0, "", "completed", Usage(), 1, 0.1)),
        st.just(ToolUse(SCOPE, "id", 1.0, "a", "tool", {})),
    ),
    max_size=20,
)


@given(records, st.integers(0, 20))
def test_any_prefix_folds_to_valid_history(log: list[AnyEvent], cut: int) -> None:
    log = numbered(*log)
    state = fold(log[:cut])
    check(state.history())
    for record in log[cut:]:
        state.apply(record)
        check(state.history())
    assert state.history() == fold(log).history()


def test_opaque_only_response_is_kept() -> None:
    block = OpaqueBlock({"type": "server_tool_use", "id": "s"}, "anthropic")
    history = fold([said("a"), answered(block)]).history()
    assert history[-1].blocks == (block,)
    check(history)

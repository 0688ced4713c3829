"""Valid places to cut a conversation, and the end that is kept."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.context.truncation import (
    affordable_messages,
    head_of,
    last_messages,
    whole_from,
)
from agent_actors.domain.blocks import ToolResultBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.messages import Message, Messages
from agent_actors.testing import strategies


def call(*ids: str) -> Message:
    return Message("assistant", tuple(ToolUseBlock(one, "add", {}) for one in ids))


def result(*ids: str) -> Message:
    return Message("tool", tuple(ToolResultBlock(one, "3", name="add") for one in ids))


USER = Message("user")
SYSTEM = Message("system")


def orphans(messages: Iterable[Message]) -> list[str]:
    """Return the ids of results without an earlier call."""
    open_calls: list[str] = []
    found: list[str] = []
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolUseBlock | ToolUseError):
                open_calls.append(block.id)
            elif isinstance(block, ToolResultBlock) and block.tool_use_id not in open_calls:
                found.append(block.tool_use_id)
    return found


# Arbitrary conversations, valid or not: ids are repeated, and results come too late.
ids = st.sampled_from(["a", "b", "c"])
any_messages = st.lists(
    st.one_of(
        st.just(USER),
        st.just(SYSTEM),
        st.lists(ids, max_size=3).map(lambda some: call(*some)),
        st.lists(ids, max_size=3).map(lambda some: result(*some)),
    ),
    max_size=12,
)
conversations = st.one_of(strategies.messages().map(list), any_messages)


def test_cut_never_separates_call_and_result() -> None:
    messages = [USER, call("a", "b"), result("a"), result("b"), USER]
    assert whole_from(messages) == [True, True, False, False, True, True]
    assert whole_from([]) == [True]


def test_repeated_id_belongs_to_nearest_call() -> None:
    messages = [call("a"), result("a"), USER, call("a"), result("a")]
    assert whole_from(messages) == [True, False, True, True, False, True]


def test_late_result_holds_messages_between() -> None:
    assert whole_from([call("a"), USER, result("a")]) == [True, False, False, True]


def test_orphan_result_needs_no_call() -> None:
    assert whole_from([USER, result("a"), USER]) == [True] * 4


def test_unreadable_call_keeps_its_result() -> None:
    broken = Message("assistant", (ToolUseError("no JSON", id="a"),))
    assert whole_from([broken, result("a")]) == [True, False, True]


def test_head_is_the_leading_system_messages() -> None:
    assert head_of([]) == 0
    assert head_of([SYSTEM, SYSTEM, USER, SYSTEM]) == 2
    assert head_of([SYSTEM]) == 1


@given(conversations, st.integers(0, 14), st.booleans())
def test_last_messages_keep_what_they_need(
    messages: list[Message], keep: int, preserve_system: bool
) -> None:
    kept = last_messages(messages, keep, preserve_system=preserve_system)
    head = head_of(messages) if preserve_system else 0
    start = max(head, len(messages) - keep)
    assert kept[:head] == list(range(head))
    rest = kept[head:]
    assert rest == list(range(len(messages) - len(rest), len(messages)))
    assert set(range(start, len(messages))) <= set(kept)
    # There are no new orphans, and keeping one message fewer would have created one.
    assert len(orphans(messages[at] for at in kept)) <= len(orphans(messages))
    for at in range(start - 1, len(messages) - len(rest) - 1, -1):
        assert not whole_from(messages)[at + 1]


@given(conversations, st.integers(-3, 60), st.booleans(), st.data())
def test_kept_messages_are_longest_that_fit(
    messages: list[Message], budget: int, preserve_system: bool, data: st.DataObject
) -> None:
    costs = data.draw(st.lists(st.integers(0, 9), min_size=len(messages), max_size=len(messages)))
    by_identity = dict(zip(map(id, messages), costs, strict=True))

    def cost(message: Message) -> int:
        return by_identity[id(message)]

    kept = affordable_messages(messages, budget, cost, preserve_system=preserve_system)
    head = head_of(messages) if preserve_system else 0
    spent = sum(cost(messages[at]) for at in kept)
    if budget <= 0:
        assert kept == []
        return
    paid = sum(cost(message) for message in messages[:head])
    if paid > budget:
        assert kept == []
        return
    assert spent <= budget
    assert kept[:head] == list(range(head))
    rest = kept[head:]
    start = len(messages) - len(rest)
    assert rest == list(range(start, len(messages)))
    whole = whole_from(messages)
    assert whole[start]
    for longer in range(head, start):
        assert not whole[longer] or paid + sum(map(cost, messages[longer:])) > budget


def test_old_messages_are_not_measured() -> None:
    asked: list[str] = []

    def cost(message: Message) -> int:
        asked.append(message.content)
        return 10

    messages = Messages().user("1").user("2").user("3").user("4")
    assert affordable_messages(messages, 20, cost, preserve_system=False) == [2, 3]
    assert asked == ["4", "3", "2"]
    assert affordable_messages(messages, 19, cost, preserve_system=False) == [3]

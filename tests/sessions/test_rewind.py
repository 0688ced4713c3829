"""A `session.rewind` rewinds the conversation, and nothing else."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.events import dumps_event, loads_event
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    EventScope,
    SessionRewind,
    ToolResult,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.usage import Usage
from agent_actors.sessions import UNFINISHED, SessionState, fold
from agent_actors.sessions.rewind_index import RewindIndex
from tests.sessions.test_state import SCOPE, answered, check, gave, numbered, records, said, use


def back(to_seq: int) -> SessionRewind:
    return SessionRewind(SCOPE, "id", 1.0, to_seq)


def texts(state: SessionState) -> list[str]:
    return [str(message.content) for message in state.history()]


def test_rewind_drops_later_records_only() -> None:
    answer = answered(TextBlock("Hello."))
    log = numbered(said("hi"), answer, said("oh"), answer, back(2), said("and"))
    assert texts(fold(log[:5])) == ["hi", "Hello."]
    assert texts(fold(log)) == ["hi", "Hello.", "and"]


def test_rewind_keeps_counters_and_usage() -> None:
    used = Usage(3, 4)
    log = numbered(
        said("go"),
        answered(use("a")),
        gave("a"),
        UsageEvent(SCOPE, "id", 9.0, used, used, requests=2, tool_calls=1),
        back(0),
    )
    state = fold(log)
    assert len(state.history()) == 0
    assert (state.last_seq, state.last_ts) == (5, 9.0)
    assert (state.usage, state.requests, state.tool_calls) == (used, 2, 1)
    assert (state.call_ids, state.turns) == ({"a"}, 1)


def test_rewound_call_accepts_a_result() -> None:
    log = numbered(
        said("go"), answered(use("a"), use("b")), gave("b", "one"), gave("a", "two"), said("next")
    )
    state = fold([*log, *numbered(*log, back(3))[-1:]])
    check(state.history())
    assert [m.content for m in state.history().tool_messages()] == [UNFINISHED, "one"]
    state.apply(gave("a", "again"))
    assert [m.content for m in state.history().tool_messages()] == ["again", "one"]


def test_result_of_rewound_call_is_ignored() -> None:
    state = fold(numbered(said("go"), answered(use("a")), back(1), gave("a"), said("next")))
    assert texts(state) == ["go", "next"]


def test_rewind_before_rewind_restores() -> None:
    log = numbered(said("a"), said("b"), back(1), said("c"), back(2), said("d"), back(4), said("e"))
    assert texts(fold(log[:5])) == ["a", "b"]
    assert texts(fold(log[:6])) == ["a", "b", "d"]
    assert texts(fold(log)) == ["a", "c", "e"]


@pytest.mark.parametrize(("to_seq", "left"), [(-(10**30), 0), (0, 0), (3, 2), (7, 2), (10**30, 2)])
def test_any_number_is_a_target(to_seq: int, left: int) -> None:
    state = fold(numbered(said("a"), said("b"), back(to_seq)))
    assert len(state.history()) == left


def test_any_seq_is_a_valid_target() -> None:
    huge = 10**30
    log = [attrs.evolve(said("a"), seq=huge), attrs.evolve(said("b"), seq=huge + 1)]
    assert texts(fold([*log, attrs.evolve(back(huge), seq=huge + 2)])) == ["a"]


def test_rewind_survives_the_store() -> None:
    [record] = numbered(back(4))
    assert loads_event(dumps_event(record)) == record


def test_returned_history_is_unaffected() -> None:
    state = fold(numbered(said("a"), said("b")))
    before = state.history()
    state.apply(back(1))
    assert len(before) == 2


@given(records, records, records, st.data())
def test_rewound_history_continues_from_target(
    first: list[AnyEvent], second: list[AnyEvent], third: list[AnyEvent], data: st.DataObject
) -> None:
    """This holds for any number of rewinds, also to a point that an earlier rewind had removed."""
    log: list[AnyEvent] = []
    # For each length of `log`: an equivalent log without rewinds, which folds to the same history.
    plain: list[tuple[AnyEvent, ...]] = [()]
    for part in (first, second, third):
        for record in part:
            log.append(record)
            plain.append((*plain[-1], record))
        to_seq = data.draw(st.integers(0, len(log)))
        log.append(back(to_seq))
        plain.append(plain[to_seq])
    log = numbered(*log)
    state = SessionState()
    for length, record in enumerate(log, 1):
        state.apply(record)
        check(state.history())
        assert state.history() == fold(plain[length]).history()
    answers = [record for record in log if isinstance(record, AssistantMessage)]
    assert state.turns == len(answers)
    assert state.last_seq == len(log)


def test_index_keeps_counted_records_in_order() -> None:
    trail: RewindIndex[str] = RewindIndex()
    trail.go_back(1, 0)
    assert trail.counting() == []
    trail.add(2, "a")
    trail.add(2, "b")
    trail.add(3, "c")
    trail.go_back(4, 2)
    assert trail.counting() == ["a", "b"]
    trail.add(5, "d")
    assert trail.counting() == ["a", "b", "d"]
    trail.go_back(6, 3)
    assert trail.counting() == ["a", "b", "c"]
    trail.go_back(7, 5)
    assert trail.dated() == [(2, "a"), (2, "b"), (5, "d")]


def test_scopes_do_not_matter() -> None:
    other = EventScope("s", "another run", "q")
    log: list[AnyEvent] = [
        UserMessage(SCOPE, "id", 1.0, "a", seq=1),
        ToolResult(other, "id", 1.0, "x", "tool", "for nobody", seq=2),
        SessionRewind(other, "id", 1.0, 0, seq=3),
    ]
    assert len(fold(log).history()) == 0

"""A `session.compacted` shortens the conversation, and its records stay in the log."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.codec.events import dumps_event, loads_event
from agent_actors.context.resume_window import ResumeWindow
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.events import AnyEvent, AssistantMessage, SessionCompacted, SessionRewind
from agent_actors.domain.usage import Usage
from agent_actors.protocol.compaction import boundaries_of
from agent_actors.sessions import SessionState, fold
from agent_actors.sessions.compaction import SUMMARY_HEADING, WINDOW_NOTICE
from tests.sessions.test_state import SCOPE, answered, check, gave, numbered, said, use


def shorten(up_to_seq: int, *repeated: int) -> SessionCompacted:
    return SessionCompacted(SCOPE, "id", 1.0, up_to_seq, "In short.", repeated=repeated)


def clear(*call_ids: str, kept: int = 0) -> SessionCompacted:
    return SessionCompacted(
        SCOPE, "id", 1.0, 0, "", kind="results", cleared=call_ids, kept_characters=kept
    )


def back(to_seq: int) -> SessionRewind:
    return SessionRewind(SCOPE, "id", 1.0, to_seq)


def texts(state: SessionState) -> list[str]:
    return [message.content for message in state.history()]


SUMMARY = f"{SUMMARY_HEADING}\n\nIn short."
HELLO = answered(TextBlock("Hello."))
LOG = (said("hi"), HELLO, said("go"), answered(use("a")), gave("a", "found"), HELLO)


def test_summary_replaces_older_messages() -> None:
    state = fold(numbered(*LOG, shorten(2)))
    assert texts(state) == [SUMMARY, "go", "", "found", "Hello."]
    assert (state.head, state.message_seqs()) == (1, [0, 3, 4, 4, 6])
    assert (state.turns, state.call_ids) == (3, {"a"})
    check(state.history())


def test_repeated_prompt_follows_summary() -> None:
    log = numbered(*LOG, shorten(5, 3), said("next"), back(8))
    assert texts(fold(log[:7])) == [SUMMARY, "go", "Hello."]
    # The prompt stays after the conversation was computed anew with a newer prompt.
    assert texts(fold(log)) == [SUMMARY, "go", "Hello.", "next"]


def test_second_summary_replaces_first() -> None:
    state = fold(numbered(*LOG, shorten(2), said("next"), HELLO, shorten(6)))
    assert texts(state) == [SUMMARY, "next", "Hello."]


def test_rewind_before_compaction_restores_messages() -> None:
    log = numbered(*LOG, shorten(2), said("next"), back(6), said("other"), back(8))
    assert texts(fold(log[:9])) == ["hi", "Hello.", "go", "", "found", "Hello."]
    assert texts(fold(log)) == [SUMMARY, "go", "", "found", "Hello.", "next"]
    assert texts(fold([*log, *numbered(*log, back(4))[-1:]]))[:3] == ["hi", "Hello.", "go"]


def test_cleared_result_names_its_tool() -> None:
    log = numbered(*LOG[:4], gave("a", "x" * 900), clear("a"), back(5))
    [result] = fold(log[:6]).history().tool_messages()
    assert "result of tool, which had 900 characters, was removed" in result.content
    assert "xx" not in result.content
    assert texts(fold(log))[-1] == "x" * 900
    [result] = fold([*log[:5], attrs.evolve(clear("a", kept=5), seq=6)]).history().tool_messages()
    assert result.content.startswith("xxxxx\n[The rest of this result of tool")


def test_open_call_stays_open_after_compaction() -> None:
    state = fold(numbered(*LOG[:4], shorten(2)))
    assert [call.id for call in state.open_calls] == ["a"]
    assert state.message_seqs() == [0, 3, 4, 4]
    state.apply(attrs.evolve(gave("a", "late"), seq=6))
    assert texts(state) == [SUMMARY, "go", "", "late"]


def test_window_leaves_out_a_summary() -> None:
    left_out = SessionCompacted(SCOPE, "id", 1.0, 2, "", kind="window", repeated=(1,))
    assert texts(fold(numbered(*LOG, left_out)))[:3] == [WINDOW_NOTICE, "hi", "go"]


def test_resume_window_keeps_summary() -> None:
    state = fold(numbered(*LOG, shorten(5, 3), said("next"), HELLO, said("last")))
    sent = ResumeWindow(3).apply(state.history(), EncodedMessageCache(), head=state.head)
    assert [message.content for message in sent] == [SUMMARY, "go", "last"]


def test_reported_tokens_end_with_compaction() -> None:
    measured = AssistantMessage(SCOPE, "id", 1.0, (TextBlock("Yes."),), usage=Usage(90, 10))
    log = numbered(said("hi"), measured, shorten(0), measured)
    assert [fold(log[:count]).reported_tokens for count in (2, 3, 4)] == [100, 0, 100]


STEPS = st.sampled_from(["say", "answer", "call", "result", "shorten", "clear", "back"])


@given(st.lists(STEPS, max_size=24), st.data())
def test_any_compacted_log_folds_to_valid_history(steps: list[str], data: st.DataObject) -> None:
    log: list[AnyEvent] = []
    state = SessionState()
    for seq, step in enumerate(steps, 1):
        record: AnyEvent
        match step:
            case "say":
                record = said(f"prompt {seq}")
            case "answer":
                record = answered(TextBlock(f"answer {seq}"))
            case "call":
                record = answered(use(f"a{seq}"), use(f"b{seq}"))
            case "result":
                ids = sorted(state.call_ids)
                record = gave(data.draw(st.sampled_from(ids or ["none"])), "r" * 500)
            case "shorten":
                seqs = state.message_seqs()
                cuts = boundaries_of(state.history(), seqs, state.head)
                up_to = seqs[data.draw(st.sampled_from(cuts))] - 1 if cuts else 0
                record = shorten(up_to) if up_to else said("no cut")
            case "clear":
                record = clear(*sorted(state.call_ids)[:2])
            case _:
                record = back(data.draw(st.integers(0, seq - 1)))
        record = attrs.evolve(record, seq=seq)
        log.append(record)
        state.apply(record)
        check(state.history())
        assert len(state.message_seqs()) == len(state.history())
    again = fold(loads_event(dumps_event(record)) for record in log)
    assert again.history() == state.history()
    assert again.head == state.head

import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import TextBlock, ThinkingBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import (
    FinishDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.testing.script import (
    Action,
    Do,
    Pause,
    Turn,
    Wait,
    call,
    do,
    fail,
    finish,
    finished,
    hang,
    interleave,
    pause,
    play,
    say,
    steps_of,
    think,
    usage,
    wait,
)


def ids(slot: int) -> str:
    return f"id{slot}"


def played(turn: Turn) -> list[Action]:
    return play(turn, call_id=ids, input_tokens=7)


def fragments(turn: Turn) -> list[tuple[int | None, str, str, object]]:
    return [
        (action.index, action.id, action.name, action.arguments)
        for action in played(turn)
        if isinstance(action, ToolCallDelta)
    ]


def test_text_becomes_a_turn() -> None:
    assert played("Hello") == [
        TextDelta("Hello"),
        FinishDelta("stop"),
        UsageDelta(Usage(7, 1, estimated=True)),
    ]


def test_step_or_sequence_becomes_a_turn() -> None:
    assert steps_of(say("a")) == steps_of([say("a")]) == steps_of("a") == (say("a"),)


@given(st.text(), st.integers(1, 12))
def test_chunks_join_to_the_text(text: str, chunks: int) -> None:
    deltas = [
        action for action in played(say(text, chunks=chunks)) if isinstance(action, TextDelta)
    ]

    assert len(deltas) == chunks
    assert "".join(delta.text for delta in deltas) == text


def test_pieces_are_deltas_as_they_are_given() -> None:
    assert played(say("a", "bc", ""))[:3] == [TextDelta("a"), TextDelta("bc"), TextDelta("")]
    assert played(say())[0] == TextDelta("")


def test_pause_every_precedes_each_delta() -> None:
    assert played(say("a", "b", every=0.5))[:4] == [
        Pause(0.5),
        TextDelta("a"),
        Pause(0.5),
        TextDelta("b"),
    ]


def test_the_signature_comes_with_the_last_thought() -> None:
    assert played(think("hm, ", "so", signature="sig"))[:2] == [
        ThinkingDelta("hm, "),
        ThinkingDelta("so", "sig"),
    ]


def test_arguments_are_cut_at_the_places_given() -> None:
    assert [piece for *_, piece in fragments(call("t", {"a": 1}, split=[2, 5]))] == [
        '{"',
        'a":',
        "1}",
    ]


def test_each_fragment_names_slot_id_and_tool() -> None:
    assert fragments([call("t", chunks=2), call("u", id="mine"), call("v", id="")]) == [
        (0, "id0", "t", "{"),
        (0, "id0", "t", "}"),
        (1, "mine", "u", "{}"),
        (2, "", "v", "{}"),
    ]


def test_interleaved_calls_alternate_fragments() -> None:
    both = interleave(call("t", "abc", chunks=3, every=0.1), call("u", "x", every=0.2))

    assert fragments(both) == [
        (0, "id0", "t", "a"),
        (1, "id1", "u", "x"),
        (0, "id0", "t", "b"),
        (0, "id0", "t", "c"),
    ]
    assert [index for index, one in enumerate(played(both)) if one == Pause(0.2)] == [0, 3, 5]


def test_text_arguments_are_sent_verbatim() -> None:
    assert fragments(call("t", "{broken"))[0][-1] == "{broken"


def test_arguments_keep_non_ascii_text() -> None:
    assert json.loads(str(fragments(call("t", {"ü": "☃"}))[0][-1])) == {"ü": "☃"}


@pytest.mark.parametrize(
    ("split", "chunks"), [([3, 2], 0), ([-1], 0), ([8], 0), ([1], 2), ([], -1)]
)
def test_cuts_that_cannot_be_made_are_refused(split: list[int], chunks: int) -> None:
    with pytest.raises(ValueError, match=r"split|chunks"):
        call("t", {"a": 1}, split=split, chunks=chunks)


def test_finish_and_usage_come_last() -> None:
    counts = usage(3, 4, cache_read_tokens=1, reasoning_tokens=2)

    assert played([finish("length"), counts, say("a")]) == [
        TextDelta("a"),
        FinishDelta("length"),
        UsageDelta(Usage(3, 4, cache_read_tokens=1, reasoning_tokens=2)),
    ]


def test_turn_with_calls_finishes_so() -> None:
    assert FinishDelta("tool_calls") in played(call("t"))


def test_nothing_follows_a_hang_or_a_failure() -> None:
    for last in (hang(), fail(ValueError("x"))):
        assert played([say("a"), last, say("b"), call("t"), interleave(call("u"))]) == [
            TextDelta("a"),
            last,
        ]


async def test_waits_between_deltas_keep_their_position() -> None:
    steps: list[Pause | Wait | Do] = [pause(1), wait(trio.Event()), do(lambda: None)]

    assert played([say("a"), *steps, say("b")])[:5] == [TextDelta("a"), *steps, TextDelta("b")]


def test_complete_response_of_a_turn() -> None:
    turn: Turn = [
        think("hm", "m", signature="s"),
        say("a", "b"),
        pause(1),
        say("c"),
        interleave(call("t", {"x": 1}), call("u", "")),
        call("v", "{broken"),
        call("w", "[1]", id="mine"),
        say(""),
    ]

    answer = finished(turn, call_id=ids, model="m", response_id="r")

    assert answer.blocks[:5] == (
        ThinkingBlock("hmm", "s"),
        TextBlock("abc"),
        ToolUseBlock("id0", "t", {"x": 1}, '{"x":1}'),
        ToolUseBlock("id1", "u", {}),
        ToolUseError(
            "the arguments are not JSON: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)",
            "{broken",
            "id2",
            "v",
        ),
    )
    assert answer.blocks[5] == ToolUseError(
        "the arguments are not a JSON object", "[1]", "mine", "w"
    )
    assert (answer.finish_reason, answer.model, answer.response_id) == ("tool_calls", "m", "r")
    assert answer.usage.estimated


def test_unfinished_turn_has_no_response() -> None:
    for last in (hang(), fail(ValueError("x"))):
        with pytest.raises(ValueError, match="no complete response"):
            finished([say("a"), last], call_id=ids)

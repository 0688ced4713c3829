import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.protocol.response.text import (
    CUMULATIVE_MIN,
    TextFlow,
    mend_object,
    mend_surrogates,
)

LONG = "The quick brown fox jumps over the lazy dog. "
GRIN = "\N{GRINNING FACE}"
HIGH, LOW = "\ud83d", "\ude00"


def shown(chunks: list[str], *, cumulative: bool = False) -> list[str]:
    flow = TextFlow(cumulative=cumulative)
    return [*[flow.feed(chunk) for chunk in chunks], flow.flush()]


def prefixes(text: str, step: int) -> list[str]:
    return [text[:end] for end in range(step, len(text), step)] + [text]


@pytest.mark.feature("OAS-060")
def test_incremental_text_is_shown_as_it_comes() -> None:
    assert shown(["Hel", "lo ", "there"]) == ["Hel", "lo ", "there", ""]


@pytest.mark.feature("OAS-060")
def test_a_short_repeat_survives_and_is_shown_at_once() -> None:
    assert shown(["ha", "ha", "!"]) == ["ha", "ha", "!", ""]


@pytest.mark.feature("OAS-060")
@pytest.mark.parametrize("step", [1, 3, 40, 50])
def test_cumulative_text_is_shown_once_however_it_grows(step: int) -> None:
    text = LONG * 5
    found = shown(prefixes(text, step))
    assert "".join(found) == text
    assert found[0] == text[:step]


def test_once_recognised_each_chunk_shows_only_what_is_new() -> None:
    text = LONG * 3
    assert shown(prefixes(text, 40))[2:] == [text[40:120], text[120:], ""]


def test_one_extension_of_a_long_prefix_is_not_enough() -> None:
    first = LONG
    assert shown([first, first + "More.", "End"]) == [first, "", first + "More.End", ""]


def test_extensions_of_a_prefix_below_the_bound_count_for_nothing() -> None:
    short = "a" * (CUMULATIVE_MIN - 1)
    chunks = ["a", short, short + "b" * 5]
    assert "".join(shown(chunks)) == "".join(chunks)


def test_two_extensions_of_a_prefix_of_just_the_bound_are_enough() -> None:
    start = "a" * CUMULATIVE_MIN
    assert "".join(shown([start, start + "b", start + "bc"])) == start + "bc"


def test_what_is_undecided_at_the_end_counts_as_incremental() -> None:
    assert shown(["so", "so on"]) == ["so", "", "so on"]


def test_a_chunk_that_brings_nothing_new_does_not_hide_that_text_is_cumulative() -> None:
    assert "".join(shown([LONG, LONG + "a", LONG + "a", LONG + "ab"])) == LONG + "ab"


def test_a_long_text_said_twice_is_not_cumulative() -> None:
    assert shown([LONG, LONG, "End"]) == [LONG, LONG, "End", ""]


def test_after_what_was_held_is_flushed_text_is_incremental() -> None:
    flow = TextFlow()
    assert [flow.feed("so"), flow.feed("so on")] == ["so", ""]
    assert (flow.holds, flow.flush(), flow.holds) == (True, "so on", False)
    assert flow.feed("so on and") == "so on and"


def test_a_declared_flow_needs_no_proof() -> None:
    assert shown(["a", "ab", "abc"], cumulative=True) == ["a", "b", "c", ""]


def test_a_declared_flow_drops_the_whole_text_repeated_at_the_end() -> None:
    assert shown(["Hel", "lo", "Hello"], cumulative=True) == ["Hel", "lo", "", ""]


def test_a_declared_flow_takes_what_extends_nothing_as_new() -> None:
    assert shown(["Hello", "Other text", "!"], cumulative=True) == ["Hello", "Other text", "!", ""]


def test_halves_of_a_character_in_two_chunks_are_joined() -> None:
    assert shown(["a" + HIGH, LOW + "b"]) == ["a", GRIN + "b", ""]


def test_a_half_that_comes_alone_waits() -> None:
    assert shown([HIGH, LOW]) == ["", GRIN, ""]


@pytest.mark.parametrize("chunks", [[HIGH, "x"], [LOW, "x"], ["", HIGH + HIGH, "x"]])
def test_a_half_that_stays_alone_is_replaced(chunks: list[str]) -> None:
    text = "".join(shown(chunks))
    assert text == "".join(chunks).replace(HIGH, "\ufffd").replace(LOW, "\ufffd")


def test_a_half_at_the_very_end_is_replaced() -> None:
    assert shown(["x" + HIGH]) == ["x", "\ufffd"]


def test_an_empty_chunk_between_halves_changes_nothing() -> None:
    assert "".join(shown(["a" + HIGH, "", LOW])) == "a" + GRIN


@given(st.text(st.characters(codec=None), max_size=30))
def test_mended_text_can_always_be_encoded_and_keeps_all_else(text: str) -> None:
    mended = mend_surrogates(text)
    mended.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert mended == text


@given(st.lists(st.text(max_size=50), max_size=20))
def test_what_cannot_be_cumulative_comes_out_whole(chunks: list[str]) -> None:
    chunks = ["a", "b", *chunks]
    assert shown(chunks) == [*chunks, ""]


@given(st.text(min_size=CUMULATIVE_MIN, max_size=200), st.lists(st.text(min_size=1), min_size=2))
def test_text_that_grows_from_the_bound_on_comes_out_once(start: str, more: list[str]) -> None:
    chunks = [start]
    for piece in more:
        chunks.append(chunks[-1] + piece)
    assert "".join(shown(chunks)) == chunks[-1]


def test_an_object_too_deep_to_be_looked_through_is_given_up() -> None:
    assert mend_object({"a": json.loads("[" * 100 + "]" * 100)}) == {}
    kept = {"a": json.loads("[" * 99 + "]" * 99)}
    assert mend_object(kept) == kept
    assert mend_object({"a": ["\ud83d", "\ud83d\ude00"]}) == {"a": ["\ufffd", "\U0001f600"]}

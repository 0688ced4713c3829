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
def test_short_repeat_is_shown_immediately() -> None:
    assert shown(["ha", "ha", "!"]) == ["ha", "ha", "!", ""]


@pytest.mark.feature("OAS-060")
@pytest.mark.parametrize("step", [1, 3, 40, 50])
def test_cumulative_text_is_shown_once(step: int) -> None:
    text = LONG * 5
    found = shown(prefixes(text, step))
    assert "".join(found) == text
    assert found[0] == text[:step]


def test_recognized_flow_shows_only_new_text() -> None:
    text = LONG * 3
    assert shown(prefixes(text, 40))[2:] == [text[40:120], text[120:], ""]


def test_single_extension_is_not_enough() -> None:
    first = LONG
    assert shown([first, first + "More.", "End"]) == [first, "", first + "More.End", ""]


def test_short_prefix_extensions_do_not_count() -> None:
    short = "a" * (CUMULATIVE_MIN - 1)
    chunks = ["a", short, short + "b" * 5]
    assert "".join(shown(chunks)) == "".join(chunks)


def test_two_extensions_at_bound_are_enough() -> None:
    start = "a" * CUMULATIVE_MIN
    assert "".join(shown([start, start + "b", start + "bc"])) == start + "bc"


def test_undecided_text_is_incremental() -> None:
    assert shown(["so", "so on"]) == ["so", "", "so on"]


def test_empty_chunk_keeps_cumulative_text_recognizable() -> None:
    assert "".join(shown([LONG, LONG + "a", LONG + "a", LONG + "ab"])) == LONG + "ab"


def test_long_text_twice_is_not_cumulative() -> None:
    assert shown([LONG, LONG, "End"]) == [LONG, LONG, "End", ""]


def test_text_after_flush_is_incremental() -> None:
    flow = TextFlow()
    assert [flow.feed("so"), flow.feed("so on")] == ["so", ""]
    assert (flow.holds, flow.flush(), flow.holds) == (True, "so on", False)
    assert flow.feed("so on and") == "so on and"


def test_a_declared_flow_needs_no_proof() -> None:
    assert shown(["a", "ab", "abc"], cumulative=True) == ["a", "b", "c", ""]


def test_declared_flow_drops_final_repetition() -> None:
    assert shown(["Hel", "lo", "Hello"], cumulative=True) == ["Hel", "lo", "", ""]


def test_declared_flow_accepts_unrelated_text() -> None:
    assert shown(["Hello", "Other text", "!"], cumulative=True) == ["Hello", "Other text", "!", ""]


def test_surrogate_halves_are_joined() -> None:
    assert shown(["a" + HIGH, LOW + "b"]) == ["a", GRIN + "b", ""]


def test_high_surrogate_waits_for_its_pair() -> None:
    assert shown([HIGH, LOW]) == ["", GRIN, ""]


@pytest.mark.parametrize("chunks", [[HIGH, "x"], [LOW, "x"], ["", HIGH + HIGH, "x"]])
def test_lone_surrogate_is_replaced(chunks: list[str]) -> None:
    text = "".join(shown(chunks))
    assert text == "".join(chunks).replace(HIGH, "\ufffd").replace(LOW, "\ufffd")


def test_trailing_half_is_replaced() -> None:
    assert shown(["x" + HIGH]) == ["x", "\ufffd"]


def test_an_empty_chunk_between_halves_changes_nothing() -> None:
    assert "".join(shown(["a" + HIGH, "", LOW])) == "a" + GRIN


@given(st.text(st.characters(codec=None), max_size=30))
def test_repaired_text_is_always_encodable(text: str) -> None:
    mended = mend_surrogates(text)
    mended.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert mended == text


@given(st.lists(st.text(max_size=50), max_size=20))
def test_non_cumulative_text_is_shown_completely(chunks: list[str]) -> None:
    chunks = ["a", "b", *chunks]
    assert shown(chunks) == [*chunks, ""]


@given(st.text(min_size=CUMULATIVE_MIN, max_size=200), st.lists(st.text(min_size=1), min_size=2))
def test_growing_text_appears_once(start: str, more: list[str]) -> None:
    chunks = [start]
    for piece in more:
        chunks.append(chunks[-1] + piece)
    assert "".join(shown(chunks)) == chunks[-1]


def test_deeply_nested_object_is_abandoned() -> None:
    assert mend_object({"a": json.loads("[" * 100 + "]" * 100)}) == {}
    kept = {"a": json.loads("[" * 99 + "]" * 99)}
    assert mend_object(kept) == kept
    assert mend_object({"a": ["\ud83d", "\ud83d\ude00"]}) == {"a": ["\ufffd", "\U0001f600"]}

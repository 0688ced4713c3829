"""Text is made safe to write to a terminal or a pipe."""

import json
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.cli.safe_text import clean, safe_json, visible

UNSAFE = "\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u206a\u206f\x00\x1b\x9b\r\x7f\x85"


def is_safe(character: str) -> bool:
    return character in "\n\t" or (
        unicodedata.category(character) != "Cc" and character not in UNSAFE
    )


@given(st.text())
@example(UNSAFE)
def test_written_text_has_no_unsafe_characters(text: str) -> None:
    assert all(map(is_safe, clean(text)))
    assert (
        visible(text).splitlines() in ([], [visible(text)]) or "\u2028" in text or "\u2029" in text
    )


def test_harmless_text_stays_as_written() -> None:
    assert clean("שלום\tOne\r\ntwo é 😀\n") == "שלום\tOne\ntwo é 😀\n"
    assert clean("rm \u202ecod\x1b[1m") == "rm \ufffdcod\ufffd[1m"
    assert visible(" a\nb\x1b\tc ") == "a b\ufffd c"


@given(st.text())
@example(UNSAFE)
def test_escaping_keeps_the_value_of_json(text: str) -> None:
    written = safe_json(json.dumps({"text": text}, ensure_ascii=False))
    assert all(map(is_safe, written))
    assert json.loads(written) == {"text": text}

"""A session's directory has a name that is unique on every file system."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_actors.domain.session import find_session_id_error
from agent_actors.stores.disk.file_names import directory_name

NAMES = st.text(min_size=1, max_size=256).filter(lambda name: find_session_id_error(name) is None)
TRICKY = st.text("aA.%~-con12/\\ é", min_size=1, max_size=8)


@pytest.mark.feature("OAGS-070")
@pytest.mark.parametrize(
    "name", ["s1", "0197e9a0-7c1f-7000-8000-0123456789ab", "a.b_c-d", "..a"[1:]]
)
def test_a_plain_id_is_its_own_name(name: str) -> None:
    assert directory_name(name) == name or name.startswith(".")


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("S1", "%531"),
        ("..", "%2e%2e"),
        (".", "%2e"),
        ("../../etc", "%2e.%2f..%2fetc"),
        ("a.", "a%2e"),
        ("con", "%63on"),
        ("nul.txt", "%6eul.txt"),
        ("com1", "%63om1"),
        ("console", "console"),
        ("a b", "a%20b"),
        ("ä", "%c3%a4"),
        ("%61", "%2561"),
        ("a:b\\c", "a%3ab%5cc"),
    ],
)
def test_unsafe_characters_are_escaped(name: str, spelled: str) -> None:
    assert directory_name(name) == spelled


def test_long_name_is_an_unambiguous_digest() -> None:
    assert directory_name("x" * 200) == "x" * 200
    digest = directory_name("x" * 201)
    assert re.fullmatch(r"%~[0-9a-f]{64}", digest)
    assert directory_name("%~" + digest[2:]) != digest


@given(st.lists(NAMES | TRICKY, unique=True, min_size=2, max_size=2))
@example(["a", "A"])
@example(["con", "%63on"])
@example(["\u00e9", "e\u0301"])
@example([".", "%2e"])
def test_ids_map_to_distinct_names(
    pair: list[str],
) -> None:
    one, other = (unicodedata.normalize("NFC", directory_name(name)).casefold() for name in pair)
    assert one != other


@given(NAMES | TRICKY)
def test_name_is_short_without_separators(name: str) -> None:
    made = directory_name(name)
    assert re.fullmatch(r"[a-z0-9._%~-]{1,200}", made)
    assert made[0] != "."
    assert made[-1] not in ". "
    assert made.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt9"}

"""Valid session ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.session import MAX_SESSION_ID, find_session_id_error


@pytest.mark.parametrize(
    "name", ["a", "../x", "CON", "Ä b", "%", "x" * MAX_SESSION_ID, "\U0001f600"]
)
def test_any_text_names_a_session(name: str) -> None:
    assert find_session_id_error(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (7, "must be text; got int"),
        (None, "must be text; got NoneType"),
        ("", "must not be empty"),
        ("x" * (MAX_SESSION_ID + 1), "at most 256 characters; got 257"),
        ("ab\0", r"cannot contain '\\x00' \(at 2\)"),
        ("\ud800", "cannot contain"),
        ("a\u2028", "cannot contain"),
        ("a\x7f", "cannot contain"),
    ],
)
def test_invalid_session_id_explains_why(name: object, expected: str) -> None:
    fault = find_session_id_error(name)
    assert fault is not None
    import re

    assert re.search(expected, fault)


@given(st.text())
def test_valid_session_id_is_one_line(name: str) -> None:
    if find_session_id_error(name) is None:
        name.encode()
        assert name.splitlines() == [name]

"""Google-style docstrings: the description of the function and of each parameter."""

from hypothesis import given
from hypothesis import strategies as st

from agent_actors.schema.docstrings import parse_docstring

FULL = """Current weather.

    It is asked of
    one station.

    - a list
      of points
    - stays

    Args:
        city: Name of the city,
            with its country.

        units (str): c or f.
        *more: Others.
        not an entry

    Returns:
        The report.

    Raises:
        ValueError: Never.

    And a word after.
    """


def test_description_excludes_its_sections() -> None:
    assert parse_docstring(FULL).description == (
        "Current weather.\n\nIt is asked of one station.\n\n- a list\n  of points\n- stays"
    )


def test_parameters_are_read_with_their_continued_lines() -> None:
    assert parse_docstring(FULL).parameters == {
        "city": "Name of the city, with its country.",
        "units": "c or f.",
        "more": "Others. not an entry",
    }


def test_text_after_arguments_is_description() -> None:
    said = parse_docstring("One.\n\nArgs:\n    a: x\n\nTwo.")
    assert (said.description, said.parameters) == ("One.\n\nTwo.", {"a": "x"})


def test_attributes_are_read_as_parameters_are() -> None:
    assert parse_docstring("A thing.\n\nAttributes:\n    a: x").parameters == {"a": "x"}


def test_leading_section_text_is_ignored() -> None:
    assert parse_docstring("One.\n\nArgs:\n    see there\n    a: x").parameters == {"a": "x"}


def test_heading_is_known_word_alone() -> None:
    said = parse_docstring("Note that:\nall is fine.\n\nArgs: none")
    assert (said.description, said.parameters) == ("Note that: all is fine.\n\nArgs: none", {})


def test_empty_docstring_has_no_content() -> None:
    assert parse_docstring(None) == parse_docstring("") == parse_docstring("  \n ")
    assert parse_docstring(None).description == ""


@given(st.text(st.sampled_from("Args: \n\tab-(*)"), max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    parse_docstring(text)

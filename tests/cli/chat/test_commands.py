"""Typed lines are parsed as commands or as messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.cli.chat.commands import (
    COMMANDS,
    Command,
    Mistake,
    Name,
    Nothing,
    Rewind,
    Say,
    count_of,
    help_lines,
    parse,
    read_choice,
    rewind_of,
    switch_of,
)

CHOICES = ("yes", "session", "always", "no")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", Nothing()),
        (" \n\t", Nothing()),
        ("Hello /help", Say("Hello /help")),
        ("  two\nlines ", Say("two\nlines")),
        ("/help", Command(Name.HELP)),
        ("/HELP ", Command(Name.HELP)),
        ("/?", Command(Name.HELP)),
        ("/exit", Command(Name.QUIT)),
        ("/model  gpt 5 ", Command(Name.MODEL, "gpt 5")),
        ("/rewind 3", Command(Name.REWIND, "3")),
        ("//help me", Say("/help me")),
        ("/etc/hosts is what?", Say("/etc/hosts is what?")),
        ("/", Command(Name.HELP)),
        ("//", Say("/")),
        ("/ help", Say("/ help")),
        ("/2", Say("/2")),
    ],
)
def test_line_is_a_prompt_or_command(text: str, line: object) -> None:
    assert parse(text) == line


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Rewind(1, files=False, dry_run=False)),
        ("--files 2", Rewind(2, files=True, dry_run=False)),
        ("2 --dry-run", Rewind(2, files=True, dry_run=True)),
        ("--all", Mistake("expected a number of at least 1; got '--all'")),
    ],
)
def test_rewind_takes_number_and_flags(text: str, wanted: object) -> None:
    assert rewind_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/hist", "the command /hist is unknown; did you mean /history?"),
        ("/modle", "did you mean /model?"),
        ("/T", "did you mean /tools?"),
        ("/zzzzzz", "/help lists the commands"),
        ("/help me", "/help takes no argument; got 'me'"),
        ("/save", "/save requires FILE"),
    ],
)
def test_mistake_names_nearest_command_or_missing_argument(text: str, message: str) -> None:
    found = parse(text)
    assert isinstance(found, Mistake)
    assert message in found.message


@given(st.text())
def test_any_text_parses_without_losing_words(text: str) -> None:
    found = parse(text)
    if isinstance(found, Say):
        assert found.text in text
        assert found.text == text.strip().removeprefix("/" if text.strip()[:2] == "//" else "")


def test_every_command_is_in_the_help() -> None:
    shown = " ".join(usage for usage, _ in help_lines())
    assert all(f"/{name}" in shown for name in Name)
    assert set(COMMANDS) == set(Name)


def test_count_is_a_positive_number() -> None:
    assert (count_of("", 1), count_of("12", 1)) == (1, 12)
    for wrong in ("0", "-1", "1.5", "two", "1_0", "²", "٣", "9" * 40):
        assert isinstance(count_of(wrong, 1), Mistake), wrong


def test_a_switch_is_turned_or_set() -> None:
    assert switch_of("", now=True) is False
    assert switch_of("ON", now=True) is True
    assert switch_of("off", now=False) is False
    assert isinstance(switch_of("maybe", now=False), Mistake)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("y", "yes"),
        (" YES ", "yes"),
        ("s", "session"),
        ("alw", "always"),
        ("n", "no"),
        ("2", "session"),
        ("", None),
        ("0", None),
        ("5", None),
        ("yess", None),
        ("maybe", None),
        ("²", None),
    ],
)
def test_choice_matches_by_prefix_or_number(text: str, choice: str | None) -> None:
    assert read_choice(text, CHOICES) == choice


def test_ambiguous_choice_matches_nothing() -> None:
    assert read_choice("re", ("red", "reddish")) is None
    assert read_choice("red", ("red", "reddish")) == "red"
    assert read_choice("x", ("X", "x")) is None


def test_free_answer_needs_some_text() -> None:
    assert read_choice(" blue ", ()) == "blue"
    assert read_choice("  ", ()) is None

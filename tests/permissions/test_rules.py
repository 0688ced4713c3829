"""Rules: their syntax, and the match of a pattern with the arguments of a call."""

import pytest

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.permissions import Rule
from agent_actors.permissions.globs import escaped
from agent_actors.permissions.patterns import FIELDS, Kind, Pattern
from agent_actors.permissions.rules import main_argument, parse_rules, rule_for
from agent_actors.tools import Tool, tool
from tests.permissions.support import (
    BASH,
    CWD,
    EDIT,
    FETCH,
    LOOSE,
    MOVE,
    NOTE,
    SEND,
    TOOLS,
    take,
)


def permits(rule: str, made: Tool, **arguments: JsonValue) -> bool:
    return Rule.parse(rule).permits(made, arguments, CWD)


def restricts(rule: str, made: Tool, **arguments: JsonValue) -> bool:
    return Rule.parse(rule).restricts(made, arguments, CWD)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected a tool name"),
        (" Bash", "expected a tool name"),
        ("Bash ", "expected a tool name"),
        ("Bash (git *)", "expected a tool name"),
        ("(git *)", "expected a tool name"),
        ("Bash|Edit", "expected a tool name"),
        ("B\u00e4sh", "expected a tool name"),
        ("Bash(git *", "the rule must end with '\\)'"),
        ("Bash(git *) ", "the rule must end with '\\)'"),
        (
            "Bash()",
            "the pattern is empty or surrounded by blanks; to match any argument, write 'Bash'",
        ),
        ("Bash( git *)", "surrounded by blanks"),
        ("Edit(src/../etc)", "'\\.\\.' is allowed only at the beginning"),
        ("Edit(path:a b/../c)", "'\\.\\.' is allowed only at the beginning"),
        ("Fetch(domain:)", "is empty"),
        ("Fetch(domain:https://x)", "expected only a host"),
        ("Fetch(url:example.com)", "expected https://host/path"),
        ("Fetch(https://a b/)", "expected https://host/path"),
        ("Move(source=a, source=b)", "the field 'source' is named twice"),
        ("Move(source=)", "is empty"),
    ],
)
def test_unreadable_rule_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Rule.parse(text)
    assert repr(text) in str(caught.value)


def test_non_text_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a permission rule such as"):
        parse_rules([None])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def test_single_rule_is_read_once() -> None:
    (rule,) = parse_rules("Bash(git *)")
    assert parse_rules([rule, "Edit"])[0] is rule
    assert parse_rules(rule) == (rule,)
    assert (rule.text, rule.name, rule.is_bare, rule.is_exact) == (
        "Bash(git *)",
        "Bash",
        False,
        True,
    )


@pytest.mark.parametrize("rule", ["Bash", "Bash(*)", "Bash(**)", "*", "B*", "[AB]ash", "?ash(*)"])
def test_bare_rule_covers_any_arguments(rule: str) -> None:
    assert permits(rule, BASH, command="x > y")
    assert permits(rule, BASH)
    assert restricts(rule, BASH)
    assert Rule.parse(rule).is_bare
    assert Rule.parse(rule).is_exact == (rule.startswith("Bash"))


@pytest.mark.parametrize("rule", ["bash", "BASH", "Bas", "Bashh", "bash(git *)"])
def test_names_meet_exactly(rule: str) -> None:
    assert not permits(rule, BASH, command="git status")
    assert not restricts(rule, BASH, command="git status")


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (BASH, "command"),
        (EDIT, "file_path"),
        (FETCH, "url"),
        (NOTE, "text"),
        (SEND, ""),
        (MOVE, ""),
        (LOOSE, ""),
        (Tool("t", "", {"type": "object"}, take), ""),
        (Tool("t", "", {"url": str, "path": str}, take), "path"),
    ],
)
def test_tool_names_its_main_argument(made: Tool, field: str) -> None:
    assert main_argument(made) == field


@pytest.mark.parametrize("field", FIELDS)
def test_field_patterns_match_by_kind(field: str) -> None:
    made = Tool("t", "", {field: str, "other": str}, take)
    asked: dict[Kind, tuple[str, str, str]] = {
        Kind.COMMAND: ("git *", "git x; git y", "git x; rm y"),
        Kind.PATH: ("src/**", "./src/a", "src/../a"),
        Kind.URL: ("domain:a.com", "https://a.com/x", "https://b.com/a.com"),
    }
    pattern, good, bad = asked[FIELDS[field]]
    assert permits(f"t({pattern})", made, **{field: good})
    assert not permits(f"t({pattern})", made, **{field: bad})


def test_a_pattern_meets_the_main_argument_only() -> None:
    assert permits("Edit(src/**)", EDIT, file_path="src/a", text="/etc/passwd")
    assert not permits("Edit(src/**)", EDIT, file_path="/etc/passwd", text="src/a")
    assert not permits("Edit(src/**)", EDIT, text="src/a")
    assert not restricts("Edit(src/**)", EDIT, file_path="x", text="src/a")


def test_model_cannot_choose_the_main_argument() -> None:
    assert not permits("Loose(git *)", LOOSE, command="git status")
    assert permits("Loose(command=git *)", LOOSE, command="git status", path="/")


@pytest.mark.parametrize("arguments", [{"x": "rm y"}, {"x": [{"y": "rm z"}]}, {"rm x": 1}])
def test_undeclared_main_argument_restricts_every_value(
    arguments: dict[str, JsonValue],
) -> None:
    assert restricts("Loose(rm *)", LOOSE, **arguments) == ("rm x" not in arguments)
    assert not restricts("Loose(mv *)", LOOSE, **arguments)


def test_a_field_is_looked_at_by_name() -> None:
    assert permits("Send(to=*@example.com)", SEND, to="ann@example.com", body="x")
    assert not permits("Send(to=*@example.com)", SEND, to="ann@example.com.evil", body="x")
    assert restricts("Send(to=*@evil.com)", SEND, to="Ann@Evil.com", body="x")


def test_fields_named_together_have_to_match_together() -> None:
    rule = "Move(source=src/**, destination=path:out/**)"
    assert permits(rule, MOVE, source="src/a", destination="out/a")
    assert not permits(rule, MOVE, source="src/a", destination="/etc/a")
    assert not permits(rule, MOVE, source="src/a")
    assert restricts(rule, MOVE, source="src/a", destination="out/a")
    assert not restricts(rule, MOVE, source="src/a", destination="x/a")


def test_assignment_in_command_is_no_field() -> None:
    assert restricts("Bash(FOO=* make)", BASH, command="FOO=1 make")
    assert not restricts("Bash(FOO=* make)", BASH, command="make")
    assert not permits("Bash(FOO=* make)", BASH, command="FOO=1 make")
    assert permits("Bash(command=FOO=* make)", BASH, command="FOO=1 make")
    assert not restricts("Bash(timeout=5)", BASH, command="timeout=5", timeout=6)
    assert not restricts("Loose(FOO=*)", LOOSE, FOO=[], command="FOO=1")


def test_field_without_pattern_matches_field_alone() -> None:
    assert restricts("Loose(a=../../x)", LOOSE, a="../../x")
    assert not restricts("Loose(a=../../x)", LOOSE, b="../../x")
    assert not restricts("Loose(a=b/c, a-b=../c)", LOOSE, a="b/c")
    assert not restricts("Loose(a=/x, b=/y/, c=d)", LOOSE, other="x")


@pytest.mark.parametrize(
    ("pattern", "value", "permitted"),
    [
        ("5", 5, True),
        ("true", True, True),
        ("null", None, True),
        ("a*", ["ab", "ac"], True),
        ("a*", ["ab", "b"], False),
        ("a*", [], False),
        ("a*", {"x": "ab"}, False),
        ("a*", ["ab", ["ac"]], False),
    ],
)
def test_plain_values_are_permitted_by_their_texts(
    pattern: str, value: JsonValue, permitted: bool
) -> None:
    assert permits(f"Loose(x={pattern})", LOOSE, x=value) == permitted


@pytest.mark.parametrize("value", [["b", "ab"], {"x": ["ab"]}, {"ab": 1}, ("ab",), "AB"])
def test_any_value_within_is_restricted(value: JsonValue) -> None:
    assert restricts("Loose(x=a*)", LOOSE, x=value)


def test_default_restricts_a_missing_argument() -> None:
    assert restricts("Fetch(mode=text)", FETCH, url="https://x")
    assert not restricts("Fetch(mode=raw)", FETCH, url="https://x")
    assert not permits("Fetch(mode=text)", FETCH, url="https://x")
    assert not restricts("Send(to=*x)", SEND)


@pytest.mark.parametrize(
    ("value", "permitted"),
    [
        ("weather in Rome", True),
        ("weather in Rome; reboot", False),
        ("weather in Rome\nreboot", False),
        ("weather in $HOME", False),
        ("weather in it's", False),
        ("weather/../x", False),
        ("other", False),
    ],
)
def test_partially_matching_text_is_not_allowed(value: str, permitted: bool) -> None:
    assert permits("Note(weather*)", NOTE, text=value) == permitted


def test_declared_text_is_matched_literally() -> None:
    assert permits("Note(text:weather*)", NOTE, text="weather; it's /../ $x\nand more")
    assert restricts("Note(text:weather*)", NOTE, text="Weather  x")
    assert not restricts("Note(text:rm *)", NOTE, text="sudo rm x")


@pytest.mark.parametrize(
    ("pattern", "value", "permitted"),
    [
        ("src/**", "src/a", True),
        ("src/**", "src/../a", False),
        ("src/*", "src/a; rm x", False),
        ("https://a.com/*", "https://a.com/?x=1&y=2", True),
        ("https://a.com/*", "https://a.com@b.com/", False),
        ("domain:a.com", "https://a.com/", True),
        ("command:git *", "git x; git y", True),
        ("command:git *", "git x; rm y", False),
        ("path:*.py", "x/a.py", True),
        ("url:https://a.com/*", "http://a.com/x", False),
    ],
)
def test_pattern_decides_kind_of_unknown_field(pattern: str, value: str, permitted: bool) -> None:
    assert permits(f"Loose(x={pattern})", LOOSE, x=value) == permitted


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("rm *", "sudo rm x"),
        (".env", "config/.env"),
        ("secrets/**", "./x/../secrets/a"),
        ("https://a.com/*", "https://u@a.com/x"),
        ("domain:a.com", "https://b.a.com"),
        ("hello*", "  Hello  you"),
    ],
)
def test_unknown_field_restricts_every_reading(pattern: str, value: str) -> None:
    assert restricts(f"Loose(x={pattern})", LOOSE, x=value)


def test_mismatched_kind_allows_nothing() -> None:
    assert not permits("Fetch(example.com*)", FETCH, url="https://example.com")
    assert not permits("Edit(domain:a.com)", EDIT, file_path="https://b.com")
    assert not permits("Edit(a ../../b/..)", EDIT, file_path="a")
    assert not Pattern.parse("a b/../c").permits("a b/c", None, CWD)


def test_impossible_field_is_refused() -> None:
    rule = Rule.parse("Bash(line=git *)")
    assert rule.unknown_field(BASH) == "line"
    assert rule.unknown_field(LOOSE) == ""
    assert rule.unknown_field(Tool("t", "", {"line": str}, take)) == ""
    assert Rule.parse("Bash(git *)").unknown_field(BASH) == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", "Edit(file_path=path:src/a.py)"),
        ("a.py", "Edit(file_path=path:./a.py)"),
        ("/etc/[x]*", "Edit(file_path=path:/etc/[[]x][*])"),
        ("a, b=c", ""),  # it would be read as two fields
        ("src/../a", ""),
        ("", ""),
        ("a ", ""),
    ],
)
def test_always_pattern_is_a_file_path(path: str, text: str) -> None:
    found = rule_for(EDIT, {"file_path": path}, CWD)
    assert found == text
    if text:
        assert permits(text, EDIT, file_path=path, text="other")
        assert not permits(text, EDIT, file_path="sub/a.py")


def test_other_always_pattern_means_same_arguments() -> None:
    assert rule_for(BASH, {"command": "ls"}, CWD) == ""
    assert rule_for(MOVE, {"source": "a", "destination": "b"}, CWD) == ""
    assert rule_for(EDIT, {"file_path": 5}, CWD) == ""
    assert rule_for(EDIT, {"file_path": "../../.."}, CWD) == "Edit(file_path=path:../../..)"
    two = tool("Two")(two_places)
    assert rule_for(two, {"path": "a", "url": "https://x"}, CWD) == ""


def two_places(path: str, url: str) -> str:
    """Take two places."""
    return path + url


def test_path_stops_at_nul_and_file_url() -> None:
    assert restricts("Edit(.env)", EDIT, file_path="sub/.env\x00.txt")
    assert restricts("Edit(/etc/**)", EDIT, file_path="file:///etc/passwd")
    assert restricts("*(/etc/**)", FETCH, url=" FILE://localhost/%65tc/passwd")
    assert not restricts("*(/etc/**)", FETCH, url="https://a.example/etc/passwd")
    assert not permits("Edit(src/**)", EDIT, file_path="file:src/a.py")


def test_an_escaped_text_means_itself() -> None:
    assert Pattern.parse(f"text:{escaped('a*[b]?')}").permits("a*[b]?", None, CWD)
    assert not Pattern.parse(f"text:{escaped('a*')}").permits("ab", None, CWD)


@pytest.mark.parametrize("made", TOOLS, ids=lambda made: made.name)
def test_hostile_arguments_raise_nothing(made: Tool) -> None:
    deep: JsonValue = "rm x"
    for _ in range(5_000):
        deep = [deep]
    rules = parse_rules([f"{made.name}({p})" for p in ("rm *", "src/**", "domain:a.com", "x=y")])
    for field in ("command", "file_path", "url", "text", "to", "x"):
        for value in (deep, "\ud800", "\x00", "~", "%" * 99, "http://[", float("nan"), "/" * 9_999):
            for rule in rules:
                rule.permits(made, {field: value}, CWD)
                rule.restricts(made, {field: value}, CWD)


@pytest.mark.parametrize(
    ("words", "is_permitted", "is_restricted"),
    [
        (["git", "push", "origin"], True, True),
        (["git", "push", "a b"], True, True),
        (["sudo", "git", "push"], False, True),
        (["sh", "-c", "git push"], False, True),
        (["git", "push", "; rm x"], False, True),
        (["git push", "rm x"], False, True),
        (["git", "status"], False, False),
        ([], False, False),
        (["git", ["push"]], False, False),
    ],
)
def test_list_of_words_is_one_command(
    words: list[JsonValue], is_permitted: bool, is_restricted: bool
) -> None:
    for text in ("Loose(command=git push *)", "Loose(argv=command:git push *)"):
        rule = Rule.parse(text)
        arguments: JsonObject = {"command": words, "argv": words}
        assert rule.permits(LOOSE, arguments, CWD) is is_permitted
        assert rule.restricts(LOOSE, arguments, CWD) is is_restricted


def _mentioned(arguments: JsonObject) -> list[str]:
    return str(arguments["text"]).split()


MENTIONS = Tool("Mentions", "Takes paths.", {"text": str}, take, paths=_mentioned)


@pytest.mark.parametrize(
    ("text", "permitted", "restricted"),
    [
        ("src/a.py src/b.py", True, True),
        ("src/a.py lib/b.py", False, True),
        ("lib/b.py", False, False),
        ("SRC/a.py", False, True),
        ("", False, False),
    ],
)
def test_declared_paths_are_matched(text: str, permitted: bool, restricted: bool) -> None:
    for rule in ("Mentions(src/**)", "Mentions(path:src/**)", "*(src/**)"):
        assert permits(rule, MENTIONS, text=text) is permitted
        assert restricts(rule, MENTIONS, text=text) is restricted
    # A field or another kind is about the argument itself.
    assert permits("Mentions(text:*.py)", MENTIONS, text=text) is text.endswith(".py")
    assert permits("Mentions(text=text:*)", MENTIONS, text=text)


def test_failing_path_function_restricts_the_call(caplog: pytest.LogCaptureFixture) -> None:
    assert not permits("Mentions(src/**)", MENTIONS)
    assert restricts("Mentions(src/**)", MENTIONS)
    assert "its function for paths failed" in caplog.text

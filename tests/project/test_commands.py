"""Slash commands: their files, their lines and their arguments."""

import pytest

from agent_actors import Command
from agent_actors.errors import ConfigError
from agent_actors.project.commands import (
    MAX_COMMAND_BYTES,
    command_lines,
    expanded,
    unknown_command,
)
from agent_actors.project.reading import read_project
from tests.project.helpers import MemoryFiles, project_plan


def test_lines_name_commands() -> None:
    lines = command_lines("/fix 12 now \n/etc/passwd is bad\n /no\n/a:b\ntext /c\n//d\n/")
    assert [(line.name, line.arguments) for line in lines if line.name] == [
        ("fix", "12 now"),
        ("a:b", ""),
    ]


def test_arguments_replace_their_places() -> None:
    body = "Fix $ARGUMENTS: first $1, second $2, third $3, $ARGUMENTSX, $0."
    assert expanded(body, "a 'b c'") == (
        "Fix a 'b c': first a, second b c, third , $ARGUMENTSX, $0."
    )
    assert expanded("$1|$2", "it's $1") == "it's|$1"
    with pytest.raises(ConfigError, match="more than 1048576 characters"):
        expanded("$ARGUMENTS " * 1000, "x" * 10_000)


def test_files_define_commands() -> None:
    texts = {
        ".claude/commands/fix.md": "---\ndescription: Fix it\nargument-hint: '[id]'\n---\nFix.\n",
        ".claude/commands/git/log.md": "# Log\n\nShow the log.\n",
        "home/.claude/commands/fix.md": "Hidden.",
        "home/.claude/commands/own.md": "Mine.",
    }
    plan = project_plan("project", "user", reads_commands=True, commands=(Command("a", body="A"),))
    knowledge = read_project(MemoryFiles(texts), plan)
    found = knowledge.commands.values()
    assert [(entry.name, entry.description, entry.hint) for entry in found] == [
        ("a", "", ""),
        ("fix", "Fix it", "[id]"),
        ("git:log", "Show the log.", ""),
        ("own", "Mine.", ""),
    ]
    (hidden,) = knowledge.report.problems
    assert str(hidden) == (
        "home/.claude/commands/fix.md: the command /fix is also defined in "
        ".claude/commands/fix.md, which is used"
    )
    assert read_project(MemoryFiles(texts), project_plan()).commands == {}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a", "---\n[\n---\n", "the frontmatter is not valid YAML"),
        ("a b", "Text.", "the name may have only letters"),
        ("a", "x" * (MAX_COMMAND_BYTES + 1), "expected at most 16384 bytes"),
    ],
)
def test_broken_command_is_reported(name: str, text: str, expected: str) -> None:
    files = MemoryFiles({f".claude/commands/{name}.md": text})
    knowledge = read_project(files, project_plan(reads_commands=True))
    assert knowledge.commands == {}
    assert expected in str(knowledge.report.problems[0])


def test_command_in_code_is_checked() -> None:
    with pytest.raises(ConfigError, match="name must be 1 to 100 letters"):
        Command("/a", body="x")
    with pytest.raises(ConfigError, match="pass either `handler` or `body`"):
        Command("a")


def test_unknown_command_names_the_nearest() -> None:
    assert unknown_command("fxi", ["fix"]).endswith("sent as text; did you mean /fix?")
    assert unknown_command("zzz", ["fix"]).endswith("sent as text")

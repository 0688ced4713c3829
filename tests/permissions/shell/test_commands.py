"""Shell command lines, read narrowly and widely."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.permissions.patterns import Kind, Pattern
from agent_actors.permissions.shell.commands import LONGEST_LINE, possible_commands, simple_commands
from tests.permissions.support import CWD

SHELL = st.text(alphabet="git rm-;&|<>(){}`'\"$\\\n\r\t#~=*/.\x00", max_size=40)


def permits(pattern: str, line: str) -> bool:
    return Pattern.parse(pattern).permits(line, Kind.COMMAND, CWD)


def restricts(pattern: str, line: str) -> bool:
    return Pattern.parse(pattern).restricts(line, Kind.COMMAND, CWD)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("git status", ("git status",)),
        ("  git\t \tstatus ", ("git status",)),
        (
            "git add . && git commit; git log | head &",
            ("git add .", "git commit", "git log", "head"),
        ),
        ("git add .\ngit push", ("git add .", "git push")),
        ("git commit -m 'a; b  && c'", ("git commit -m 'a; b  && c'",)),
        ('git commit -m "it\'s; fine" ; ls', ('git commit -m "it\'s; fine"', "ls")),
        ("git commit -m '$(rm x) `rm`'", ("git commit -m '$(rm x) `rm`'",)),
        ("", ()),
        (" ; ", ()),
    ],
)
def test_a_plain_line_is_its_simple_commands(line: str, parts: tuple[str, ...]) -> None:
    assert simple_commands(line) == parts


@pytest.mark.parametrize(
    "line",
    [
        "git log $(rm -rf /)",
        "git log `rm -rf /`",
        'git log "$(rm -rf /)"',
        'git log "`rm -rf /`"',
        "git log $HOME",
        "git log > .bashrc",
        "git log < input",
        "git log <(rm x)",
        "(git log)",
        "{ git log; }",
        "git log \\; rm",
        'git log "\\"',
        "git log # it's\nrm -rf / # '",
        "git commit -m 'open",
        'git commit -m "open',
        "git log \x00",
        "git log\rrm -rf /",
        "git log\x1b[2K",
        "x" * (LONGEST_LINE + 1),
    ],
)
def test_complex_line_is_never_allowed(line: str) -> None:
    assert simple_commands(line) is None
    assert not permits("git *", line)
    assert not permits("* *", line)


@pytest.mark.parametrize(
    "line",
    [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status || rm -rf /",
        "git status | sh",
        "git status |& sh",
        "git status & rm -rf /",
        "git status\nrm -rf /",
        "GIT_PAGER=sh git status",
        "gitx status",
        "Git status",
        "sudo git status",
        "/tmp/git status",
        "",
    ],
)
def test_partial_match_is_not_allowed(line: str) -> None:
    assert not permits("git *", line)


@pytest.mark.parametrize("pattern", ["git *", "git:*", "command:git *"])
@pytest.mark.parametrize("line", ["git", "git status", " git  status", "git add . && git status"])
def test_program_pattern_allows_any_arguments(pattern: str, line: str) -> None:
    assert permits(pattern, line)


def test_pattern_without_star_allows_exact_command() -> None:
    assert permits("npm  test", "npm test")
    assert not permits("npm test", "npm test --all")


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /",
        "  rm\t-rf /",
        "RM -rf /",
        "ls; rm -rf /",
        "ls&&rm -rf /",
        "ls | xargs -n 1 rm",
        "ls\nrm x",
        "ls $(rm x)",
        "ls `rm x`",
        "(rm x)",
        "{ rm x; }",
        "sudo -u root rm x",
        "/bin/rm x",
        "'rm' x",
        'r"m" x',
        "r\\m x",
        "r\\\nm x",
        "rm${IFS}-rf",
        "bash -c 'rm x'",
        "FOO=1 BAR+=2 rm x",
        "FOO=1 sudo rm x",
        "if true; then rm x; fi",
        "find . -name x -exec rm {} +",
        "timeout 5 rm x",
        "ls <(rm x)",
        ">log rm x",
        ">'a log' rm x",
        '2>&1 <"a b" rm x',
        "{fd}>log rm x",
        "coproc rm x",
        "\uff52\uff4d x",
        "x" * (LONGEST_LINE + 1),
    ],
)
def test_every_runnable_part_is_restricted(line: str) -> None:
    assert restricts("rm *", line)
    assert restricts("rm:*", line)


@pytest.mark.parametrize("line", ["ls", "rmdir x", "git rm x", "echo FOO=1", "FOO=1", "", " ; "])
def test_other_commands_are_not_restricted(line: str) -> None:
    assert not restricts("rm *", line)


def test_options_behind_an_expansion_are_seen() -> None:
    assert restricts("git push * --force", "cd x && git push $REMOTE --force")
    assert restricts("git push * --force", 'cd x && git push "origin" --force')


def test_runner_arguments_are_checked_boundedly() -> None:
    far = "sudo " + "x " * 100 + "rm x"
    assert len(possible_commands(far)) < 60
    assert not restricts("rm *", far)


@given(SHELL, st.sampled_from(["git *", "rm *", "*", "g?t", "git", "* -*"]))
def test_allowed_command_is_also_restricted(line: str, pattern: str) -> None:
    if permits(pattern, line):
        assert restricts(pattern, line)


@given(SHELL, SHELL)
def test_appended_command_is_never_allowed(line: str, more: str) -> None:
    for between in (";", "&&", "||", "|", "&", "\n"):
        joined = f"git {line}{between}{more}"
        if permits("git *", joined):
            parts = simple_commands(joined)
            assert parts is not None
            assert all(part == "git" or part.startswith("git ") for part in parts)


@given(st.text(alphabet="gitrm '\"", max_size=20), st.sampled_from([";", "&&", "|", "\n"]))
def test_appended_program_is_always_restricted(text: str, between: str) -> None:
    assert restricts("rm *", f"{text}{between}rm x")

"""Edits of the built-in tools are shown as diffs in `chat` and `run`."""

from pathlib import Path

import pytest

from agent_actors.testing import ScriptedEndpoint, call
from scripts.pseudo_terminal import ENTER, in_terminal
from tests import program_helpers
from tests.cli.chat.helpers import chatting, next_prompt
from tests.cli.helpers import PROGRAM, agent_actors, at, environment

HOSTILE = "\x1b[2J\x1b]0;owned\x07"
EDIT = call("Edit", {"file_path": "a.py", "old": "two", "new": f"2{HOSTILE}"})
GREEN, RED = "\x1b[32m", "\x1b[31m"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text(f"one{HOSTILE}\ntwo\n")
    return root


def options(project: Path) -> tuple[str, ...]:
    return ("--tools", "code", "--workspace", str(project))


async def test_diff_is_shown_with_the_question(tmp_path: Path, project: Path) -> None:
    async with (
        ScriptedEndpoint([EDIT, "Changed."]) as endpoint,
        chatting(endpoint, tmp_path, *options(project)) as it,
    ):
        it.type(f"edit{ENTER}")
        await it.until("Allow Edit: a.py, 1 added, 1 removed?\n  @@ line 1\n   one")
        await it.until("yes/session/always/no>")
        assert (project / "a.py").read_text() == f"one{HOSTILE}\ntwo\n"
        it.type(f"y{ENTER}")
        await it.until("Changed.")
        await next_prompt(it)

    assert (project / "a.py").read_text() == f"one{HOSTILE}\n2{HOSTILE}\n"
    assert it.screen.text.count("+2") == 1, "the diff is not repeated after the approval"
    assert it.screen.text.count("a.py, 1 added, 1 removed") == 2
    assert f"{RED}  -two" in it.written
    assert f"{GREEN}  +2" in it.written
    assert HOSTILE not in it.written
    assert "\x07" not in it.written


async def test_allowed_edit_is_shown_afterwards(tmp_path: Path, project: Path) -> None:
    async with (
        ScriptedEndpoint([EDIT, "Changed."]) as endpoint,
        chatting(endpoint, tmp_path, *options(project), "--permissions", "accept_edits") as it,
    ):
        it.type(f"edit{ENTER}")
        await it.until("  a.py, 1 added, 1 removed\n  @@ line 1\n   one")
        await it.until("  -two\n  +2")
        await it.until("Changed.")


async def test_plain_run_shows_plain_diff(project: Path) -> None:
    write = call("Write", {"file_path": "b.py", "content": "new\n"})
    async with ScriptedEndpoint([[EDIT, write], "Done."]) as endpoint:
        ended = await agent_actors("run", "Go", *at(endpoint), *options(project))
    assert (ended.status, ended.out) == (0, "Done.\n")
    assert "  a.py, 1 added, 1 removed\n  @@ line 1\n   one" in ended.err
    assert "tool: Edit: done" in ended.err
    assert "  new file b.py, 1 added, 0 removed\n  @@ line 1\n  +new\n" in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("no_color", ["", "1"])
async def test_run_in_terminal_uses_colours(project: Path, no_color: str) -> None:
    env = environment({"TERM": "xterm-256color", "NO_COLOR": no_color})
    async with ScriptedEndpoint([EDIT, "Done."]) as endpoint:
        command = [*PROGRAM, "run", "Go", *at(endpoint), *options(project)]
        start = program_helpers.start_in_terminal
        async with in_terminal(command, env, start=start) as session:
            assert await session.end() == 0
    assert (f"{RED}  -two" in session.written) == (not no_color)
    assert "  -two" in session.written
    assert HOSTILE not in session.written


async def test_denied_edit_shows_no_diff_afterwards(project: Path) -> None:
    async with ScriptedEndpoint([EDIT, "Refused."]) as endpoint:
        ended = await agent_actors("chat", *at(endpoint), *options(project), stdin=b"edit\n")
    assert ended.out == "Refused.\n"
    assert "not permitted" in ended.err
    assert "-two" not in ended.err

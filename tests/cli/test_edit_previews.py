"""Calls that write files have a diff before they run."""

from collections.abc import AsyncGenerator
from pathlib import Path

import attrs
import pytest

from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.domain.events import EventScope, ToolResult
from agent_actors.domain.json import JsonObject
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import Question
from agent_actors.hooks import PreToolUseEvent


@pytest.fixture
async def previews(tmp_path: Path) -> AsyncGenerator[EditPreviews]:
    (tmp_path / "a.py").write_text("one\ntwo\ntwo\n")
    (tmp_path / "image").write_bytes(b"\x89PNG\0")
    async with EditPreviews(tmp_path) as made:
        yield made


def call(name: str, arguments: JsonObject) -> PreToolUseEvent:
    return PreToolUseEvent(
        session_id="s",
        run_id="r",
        messages=Messages(),
        tool_name=name,
        tool_input=arguments,
        tool_use_id="c1",
    )


def result(call_id: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(
        EventScope("s", "r", "q"),
        "e",
        0.0,
        tool_use_id=call_id,
        name="n",
        content="",
        is_error=is_error,
    )


async def shown(previews: EditPreviews, name: str, arguments: JsonObject) -> list[str] | None:
    event = call(name, arguments)
    await previews.before_tool(event)
    diff = previews.ask(Question("q", "s", "r", "?", tool_use_id="c1"))
    return None if diff is None else [diff.summary, *(line.text for line in diff.lines)]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        (
            "Edit",
            {"file_path": "a.py", "old": "two", "new": "2", "count": 0},
            ["a.py, 2 added, 2 removed", "@@ line 1", " one", "-two", "-two", "+2", "+2"],
        ),
        (
            "edit_file",
            {"path": "a.py", "old_text": "one\n", "new_text": ""},
            ["a.py, 0 added, 1 removed", "@@ line 1", "-one", " two", " two"],
        ),
        (
            "Write",
            {"file_path": "new.py", "content": "x\n"},
            ["new file new.py, 1 added, 0 removed", "@@ line 1", "+x"],
        ),
        (
            "write_file",
            {"path": "a.py", "content": "one\ntwo\n"},
            ["a.py, 0 added, 1 removed", "@@ line 1", " one", " two", "-two"],
        ),
        (
            "ApplyPatch",
            {"patch": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"},
            [
                "a.py, 0 added, 0 removed",
                "*** Begin Patch",
                "*** Delete File: a.py",
                "*** End Patch",
            ],
        ),
    ],
)
async def test_call_has_a_diff(
    previews: EditPreviews, name: str, arguments: JsonObject, expected: list[str]
) -> None:
    assert await shown(previews, name, arguments) == expected


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Edit", {"file_path": "a.py", "old": "missing", "new": "2"}),
        ("Edit", {"file_path": "none.py", "old": "one", "new": "2"}),
        ("Edit", {"file_path": "image", "old": "P", "new": "2"}),
        ("Edit", {"file_path": "a.py", "old": "", "new": "2"}),
        ("Write", {"file_path": "../outside", "content": "x"}),
        ("Write", {"file_path": "\0", "content": "x"}),
        ("Write", {"file_path": 3, "content": "x"}),
        ("Bash", {"command": "ls"}),
    ],
)
async def test_other_call_has_none(
    previews: EditPreviews, name: str, arguments: JsonObject
) -> None:
    assert await shown(previews, name, arguments) is None


async def test_diff_is_shown_once(previews: EditPreviews) -> None:
    arguments: JsonObject = {"file_path": "a.py", "content": "x\n"}
    assert await shown(previews, "Write", arguments) is not None
    after = previews.end(result("c1"))
    assert after is not None
    assert (after.lines, after.added) == ((), 1)
    assert previews.end(result("c1")) is None
    event = attrs.evolve(call("Write", arguments), tool_use_id="c2")
    await previews.before_tool(event)
    await previews.before_tool(attrs.evolve(event, tool_use_id="c3"))
    await previews.before_tool(attrs.evolve(event, tool_use_id="c4", nested=True))
    assert previews.end(result("c2", is_error=True)) is None
    assert previews.end(result("c4")) is None
    unasked = previews.end(result("c3"))
    assert unasked is not None
    assert len(unasked.lines) == 5

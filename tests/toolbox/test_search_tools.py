"""The tools that list, find and search files."""

import json

import pytest

from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.files import MAX_MATCHES, GrepMatch, GrepMatches, GrepQuery
from agent_actors.testing import MemoryWorkspace
from agent_actors.toolbox.operations import Operations, ToolLimits
from agent_actors.toolbox.presets import select
from agent_actors.toolbox.search import FileSearch
from tests.toolbox.helpers import Context, Tools

FILES: dict[str, str | bytes] = {
    "README.md": "Say hello\n",
    "src/app.py": "import os\n\ndef hello():\n    return 1\n",
    "src/deep/util.py": "HELLO = 1\n",
    "src/data.bin": b"hello\0",
}


def tools(limits: ToolLimits | None = None) -> Tools:
    return Tools(select(["code", "filesystem"], limits), Context(MemoryWorkspace(FILES)))


@pytest.mark.feature("WICK-044")
async def test_ls_returns_a_json_array() -> None:
    box = tools()
    assert json.loads(await box.text("ls", path="src")) == [
        {"name": "app.py", "type": "file", "size": 37},
        {"name": "data.bin", "type": "file", "size": 6},
        {"name": "deep", "type": "dir", "size": 0},
    ]
    assert [entry["name"] for entry in json.loads(await box.text("ls"))] == ["README.md", "src"]
    assert "is not a directory" in await box.error("ls", path="README.md")
    assert box.context.resources[0].paths == ("src",)


async def test_ls_marks_a_cut_listing() -> None:
    output = await FileSearch(max_entries=1).list(Context(MemoryWorkspace(FILES)), "src")
    assert isinstance(output.content, str)
    first, last = json.loads(output.content)
    assert first["name"] == "app.py"
    assert last["type"] == "truncated"


@pytest.mark.feature("WICK-049")
@pytest.mark.parametrize("name", ["Glob", "glob"])
async def test_glob_returns_sorted_paths(name: str) -> None:
    box = tools()
    assert await box.object(name, pattern="**/*.py") == {
        "files": ["src/app.py", "src/deep/util.py"],
        "truncated": False,
    }
    assert await box.object(name, pattern="*.py", path="src") == {
        "files": ["src/app.py"],
        "truncated": False,
    }
    few = tools(ToolLimits(max_matches=1))
    assert await few.object(name, pattern="**") == {"files": ["README.md"], "truncated": True}


@pytest.mark.feature("WICK-050")
async def test_grep_returns_matching_lines() -> None:
    assert await tools().object("grep", pattern="h[e]llo") == {
        "matches": [
            {"file": "README.md", "line": 1, "text": "Say hello"},
            {"file": "src/app.py", "line": 3, "text": "def hello():"},
        ],
        "truncated": False,
        "skipped_files": 1,
    }
    found = await tools().object("grep", pattern="hello", path="src/app.py")
    assert found["matches"] == [{"file": "src/app.py", "line": 3, "text": "def hello():"}]
    assert "is not a regular expression" in await tools().error("grep", pattern="(")


@pytest.mark.feature("OAGS-036")
@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (
            {"file_glob": "*.md"},
            {"matches": [{"file": "README.md", "line": 1, "text": "Say hello"}]},
        ),
        (
            {"path": "src", "ignore_case": True, "mode": "files_with_matches"},
            {"files": ["src/app.py", "src/deep/util.py"], "skipped_files": 1},
        ),
        (
            {"ignore_case": True, "mode": "count", "file_glob": "src/**/*.py"},
            {
                "counts": [
                    {"file": "src/app.py", "count": 1},
                    {"file": "src/deep/util.py", "count": 1},
                ]
            },
        ),
        (
            {"file_glob": "app.py", "before": 1, "after": 2},
            {
                "matches": [
                    {
                        "file": "src/app.py",
                        "line": 3,
                        "text": "def hello():",
                        "before": [""],
                        "after": ["    return 1"],
                    }
                ]
            },
        ),
        (
            {"query": "os.*hello", "multiline": True, "file_glob": "*.py"},
            {"matches": [{"file": "src/app.py", "line": 1, "text": "import os"}]},
        ),
    ],
)
async def test_grep_options_select_and_shape(arguments: JsonObject, result: JsonObject) -> None:
    found = await tools().object("Grep", **({"query": "hello"} | arguments))
    assert found == {"truncated": False, **result}


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
async def test_call_can_only_lower_the_limit(mode: str) -> None:
    few = tools(ToolLimits(max_matches=1))
    arguments: JsonObject = {"query": "hello", "mode": mode, "file_glob": "*.*"}
    for limit in (1, MAX_MATCHES):
        found = await few.object("Grep", **arguments, limit=limit)
        shown = next(value for value in found.values() if isinstance(value, list))
        assert len(shown) == 1
        assert found["truncated"] is True
    assert "at least" in await few.error("Grep", **arguments, limit=0)
    assert "at least" in await few.error("Grep", **arguments, before=-1)


async def test_long_matches_are_cut() -> None:
    class Wide(MemoryWorkspace):
        async def grep(self, query: GrepQuery) -> GrepMatches:
            del query
            return GrepMatches(tuple(GrepMatch("a", line, "x" * 40) for line in range(9)))

    operations = Operations.within(ToolLimits())
    search = FileSearch(max_characters=100)
    assert operations.search.max_characters > 100
    found = await search.grep(Context(Wide()), GrepQuery(pattern="x"))
    assert isinstance(found["matches"], list)
    assert len(found["matches"]) == 2
    assert found["truncated"] is True

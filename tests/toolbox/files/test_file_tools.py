"""The tools that read, write and edit files, in both vocabularies."""

import base64
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from agent_actors.domain.events import FileChanged
from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.files import FileInfo
from agent_actors.domain.workspace.report import CallResources
from agent_actors.errors import ConfigError
from agent_actors.testing import MemoryWorkspace, StepOutcome, cancel_at_every_step
from agent_actors.toolbox.files.session_files import SeenFile, SessionFiles
from agent_actors.toolbox.operations import ToolLimits
from agent_actors.toolbox.presets import select
from agent_actors.tools.context import DetachedContext
from tests.toolbox.helpers import Context, Tools

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def tools(workspace: MemoryWorkspace, limits: ToolLimits | None = None) -> Tools:
    return Tools(select(["code", "filesystem"], limits), Context(workspace))


@pytest.mark.feature("WICK-045")
async def test_read_returns_numbered_lines() -> None:
    box = tools(MemoryWorkspace({"a.txt": "one\ntwo\nthree\n"}))
    assert await box.text("read_file", path="a.txt") == "     1\tone\n     2\ttwo\n     3\tthree"
    part = await box.text("Read", file_path="/workspace/a.txt", offset=2, limit=1)
    assert part == ("     2\ttwo\n[These are lines 2 to 2 of 3. To read more, set offset to 3.]")
    assert await box.text("Read", file_path="a.txt", offset=0, limit=1) == (
        "     1\tone\n[These are lines 1 to 1 of 3. To read more, set offset to 2.]"
    )
    used = box.context.resources[0]
    assert (used.paths, used.bytes_read) == (("a.txt",), 14)


async def test_read_names_encoding_and_cuts() -> None:
    workspace = MemoryWorkspace(
        {
            "latin.txt": "café\n".encode("latin-1"),
            "utf16.txt": "café\n".encode("utf-16"),
            "empty.txt": "",
            "wide.txt": "x" * 2_001 + "\n",
        }
    )
    box = tools(workspace)
    latin = await box.text("Read", file_path="latin.txt")
    assert latin.startswith("     1\tcafé\n[The file's encoding is latin-1")
    assert "UTF-16-LE" in await box.text("Read", file_path="utf16.txt")
    assert await box.text("Read", file_path="empty.txt") == "[The file is empty.]"
    assert "1 of these lines are too long" in await box.text("Read", file_path="wide.txt")


async def test_read_says_what_it_cannot_read() -> None:
    workspace = MemoryWorkspace({"a.zip": b"PK\x03\x04\0", "long.txt": "abc\n" * 5})
    box = tools(workspace, ToolLimits(max_file_bytes=10))
    assert await box.error("Read", file_path="a.zip") == (
        "a.zip is not a text file but application/zip, with 5 bytes"
    )
    long = await box.text("Read", file_path="long.txt")
    assert "[The file has 20 bytes; only the first 10 can be read." in long
    assert "after the end of long.txt, which has 3 lines in the part" in await box.error(
        "Read", file_path="long.txt", offset=9
    )
    assert "at least 1" in await box.error("Read", file_path="long.txt", limit=0)
    assert "the file b.txt does not exist" in await box.error("Read", file_path="b.txt")
    assert "outside the workspace" in await box.error("Read", file_path="../etc/passwd")


async def test_read_shows_images_and_pdfs() -> None:
    pdf = b"%PDF-1.7 content"
    box = tools(MemoryWorkspace({"a.png": PNG, "b.pdf": pdf, "big.png": PNG * 3_000}))
    image = (await box.output("Read", file_path="a.png")).content
    assert isinstance(image, list)
    assert isinstance(image[0], dict)
    assert base64.b64encode(PNG).decode() in str(image[0])
    document = (await box.output("Read", file_path="b.pdf")).content
    assert base64.b64encode(pdf).decode() in str(document)
    assert (await box.output("Read", file_path="big.png")).is_error is False
    small = tools(MemoryWorkspace({"a.png": PNG}), ToolLimits(max_file_bytes=9))
    assert "a.png is image/png with 28 bytes; at most 9 bytes" in await small.error(
        "Read", file_path="a.png"
    )


@pytest.mark.feature("WICK-046", "OAGS-023", "OAGS-024")
async def test_write_creates_parents_and_counts_bytes() -> None:
    workspace = MemoryWorkspace()
    box = tools(workspace)
    written = await box.object("write_file", path="a/b/c.txt", content="é\n")
    assert written == {"path": "a/b/c.txt", "bytes_written": 3}
    assert workspace.text("a/b/c.txt") == "é\n"
    assert await box.object("Write", file_path="a/b/c.txt", content="") == {
        "path": "a/b/c.txt",
        "bytes_written": 0,
    }
    error = await box.error("Write", file_path="a/b/c.txt", content="x", overwrite=False)
    assert "already exists" in error
    assert workspace.text("a/b/c.txt") == ""
    assert "a parent of" in await box.error("Write", file_path="a/b/c.txt/d", content="x")
    assert "is a directory" in await box.error("Write", file_path="a", content="x")
    assert "half of a surrogate pair" in await box.error("Write", file_path="d", content="\ud800")
    assert "outside" in await box.error("Write", file_path="/etc/passwd", content="x")


@pytest.mark.feature("WICK-047", "WICK-048")
async def test_edit_file_replaces_first_occurrence() -> None:
    workspace = MemoryWorkspace({"a.py": "x = 1\ny = 1\n"})
    box = tools(workspace)
    edited = await box.object("edit_file", path="a.py", old_text="= 1", new_text="= 2")
    assert edited == {
        "path": "a.py",
        "replacements": 1,
        "further_matches": 1,
        "further_lines": [2],
    }
    assert workspace.text("a.py") == "x = 2\ny = 1\n"
    error = await box.error("edit_file", path="a.py", old_text="y  = 1", new_text="")
    assert error.startswith("old_text not found in file")
    assert "The nearest lines are:\n2: y = 1\n" in error
    assert "no line of the file is similar" in await box.error(
        "edit_file", path="a.py", old_text="zzzzzz", new_text=""
    )


@pytest.mark.feature("OAGS-025", "OAGS-026", "OAGS-027")
async def test_edit_counts_and_anchors() -> None:
    workspace = MemoryWorkspace({"a.txt": "x one x two x\n"})
    box = tools(workspace)
    arguments: JsonObject = {"file_path": "a.txt", "old": "x", "new": "y"}
    misplaced = await box.error("Edit", **arguments, before="two", after="one")
    assert "no occurrence of old in file a.txt is surrounded by before and after" in misplaced
    assert "before not found" in await box.error("Edit", **arguments, before="no")
    assert "after not found" in await box.error("Edit", **arguments, after="no")
    assert workspace.text("a.txt") == "x one x two x\n"
    edited = await box.object("Edit", **arguments, before="one", after="two")
    assert edited["replacements"] == 1
    assert workspace.text("a.txt") == "x one y two x\n"
    assert await box.object("Edit", **arguments, count=0) == {"replacements": 2}
    assert workspace.text("a.txt") == "y one y two y\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"old": ""}, "old must not be empty"),
        ({"new": "café"}, "are the same"),
        ({"count": -1}, "count must be at least 1"),
        ({"new": "\u20ac"}, "latin-1, which has no character"),
        ({"file_path": "b.bin"}, "b.bin is not a text file"),
        ({"file_path": "long.txt"}, "files of at most 20 bytes can be edited"),
        ({"file_path": "none.txt"}, "the file none.txt does not exist"),
    ],
)
async def test_impossible_edit_changes_nothing(arguments: JsonObject, message: str) -> None:
    files = {"a.txt": "café\n".encode("latin-1"), "b.bin": b"\0", "long.txt": b"x" * 21}
    workspace = MemoryWorkspace(files)
    box = tools(workspace, ToolLimits(max_file_bytes=20))
    wanted: JsonObject = {"file_path": "a.txt", "old": "café", "new": "tea"}
    assert message in await box.error("Edit", **(wanted | arguments))
    assert workspace.files == files
    assert not box.context.events


@pytest.mark.parametrize("form", ["latin-1", "utf-16", "utf-8-sig"])
async def test_edit_keeps_encoding_and_line_breaks(form: str) -> None:
    workspace = MemoryWorkspace({"a.txt": "é\r\nb\r\n".encode(form)})
    await tools(workspace).object("Edit", file_path="a.txt", old="b\n", new="c\nd\n")
    assert workspace.files["a.txt"] == "é\r\nc\r\nd\r\n".encode(form)


@pytest.mark.parametrize("name", ["Edit", "Write", "ApplyPatch"])
async def test_file_changed_by_others_is_refused(name: str) -> None:
    workspace = MemoryWorkspace({"a.txt": "one\ntwo\n"})
    box = tools(workspace)
    calls: dict[str, JsonObject] = {
        "Edit": {"file_path": "a.txt", "old": "two", "new": "2"},
        "Write": {"file_path": "a.txt", "content": "2\n"},
        "ApplyPatch": {"patch": "*** Begin Patch\n*** Update File: a.txt\n-two\n+2\n*** End Patch"},
    }
    await box.text("Read", file_path="a.txt")
    workspace.put("a.txt", "three\ntwo\n")
    error = await box.error(name, **calls[name])
    assert "a.txt has changed since you last read it" in error
    assert "\n-one\n+three\n" in error
    assert workspace.text("a.txt") == "three\ntwo\n"
    await box.text("Read", file_path="a.txt")
    assert not (await box.output(name, **calls[name])).is_error
    # A call's own change is known, and other sessions are not affected.
    assert not (await box.output("Write", file_path="a.txt", content="3")).is_error
    workspace.put("a.txt", "4\n")
    other = Tools(box.by_name.values(), Context(workspace, session_id="s2"))
    assert not (await other.output("Write", file_path="a.txt", content="5")).is_error


async def test_difference_is_shown_as_far_as_known() -> None:
    workspace = MemoryWorkspace({"a.txt": "one\n", "b.txt": "1\n" * 500, "c.txt": "x" * 300_000})
    box = tools(workspace)
    for path in ("a.txt", "b.txt", "c.txt"):
        await box.text("Read", file_path=path)
    workspace.put("a.txt", "one\r\n")
    workspace.put("b.txt", "2\n" * 500)
    workspace.put("c.txt", "y")
    written = {
        path: await box.error("Write", file_path=path, content="") for path in workspace.files
    }
    assert "Only its line breaks or its encoding" in written["a.txt"]
    assert written["b.txt"].endswith("[more changes]")
    assert "The difference cannot be shown" in written["c.txt"]


async def test_change_during_an_edit_is_refused() -> None:
    class Racing(MemoryWorkspace):
        async def write(
            self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
        ) -> FileInfo:
            self.put(path, "other")
            return await super().write(path, data, overwrite=overwrite, expected=expected)

    workspace = Racing({"a.txt": "one"})
    assert "another program changed" in await tools(workspace).error(
        "Edit", file_path="a.txt", old="one", new="two"
    )
    assert workspace.text("a.txt") == "other"


async def test_parallel_edits_of_a_session_all_apply() -> None:
    workspace = MemoryWorkspace({"a.txt": "0 1 2 3\n"})
    box = tools(workspace)
    async with trio.open_nursery() as nursery:
        for number in range(4):

            async def edit(number: int = number) -> None:
                old = str(number)
                await box.object("Edit", file_path="a.txt", old=old, new=f"n{number}")

            nursery.start_soon(edit)
    assert workspace.text("a.txt") == "n0 n1 n2 n3\n"


@pytest.mark.feature("WICK-027")
async def test_changes_are_recorded_with_their_content() -> None:
    box = tools(MemoryWorkspace({"a.txt": "one\n"}))
    await box.object("Write", file_path="b.txt", content="b")
    await box.object("Edit", file_path="a.txt", old="one", new="two")
    await box.object("Write", file_path="long.txt", content="é" * 200_000)
    short, edited, long = box.context.recorded(FileChanged)
    assert (short.path, short.content) == ("b.txt", "b")
    assert (edited.path, edited.content) == ("a.txt", "two\n")
    assert (long.path, long.content, long.size) == ("long.txt", None, 400_000)
    assert re.fullmatch("sha256:[0-9a-f]{64}", long.digest)
    assert sum(one.bytes_written for one in box.context.resources) == 400_005


async def test_tool_without_workspace_is_config_error() -> None:
    DetachedContext("Read").used(CallResources())  # does nothing
    (read,) = select(["Read"])
    with pytest.raises(ConfigError, match=r"'Read' needs a workspace; set AgentOptions"):
        await read.invoke({"file_path": "a"}, Context(tool_name="Read"))
    with pytest.raises(ConfigError):
        await read.execute({"file_path": "a"})


def test_cancelled_edit_leaves_old_or_new_text() -> None:
    @asynccontextmanager
    async def around() -> AsyncGenerator[Tools]:
        box = tools(MemoryWorkspace({"a.txt": "one"}))
        yield box
        # The next call is not blocked. It may see the cancelled change as one by another program.
        await box.text("Read", file_path="a.txt")
        await box.object("Write", file_path="a.txt", content="three")

    async def edit(box: Tools) -> None:
        await box.object("Edit", file_path="a.txt", old="one", new="two")

    def check(step: int, outcome: StepOutcome[Tools]) -> None:
        del step
        workspace = outcome.subject.context.workspace
        assert isinstance(workspace, MemoryWorkspace)
        assert workspace.text("a.txt") in ("one", "two")

    assert cancel_at_every_step(edit, around=around, check=check) > 3


def test_knowledge_about_files_is_bounded() -> None:
    files = SessionFiles(max_total=10, max_files=3)
    for path in "abc":
        files.remember("s", path, "1", "12345")
    assert [files.seen("s", path) for path in "abc"] == [
        SeenFile("1"),
        SeenFile("1", "12345"),
        SeenFile("1", "12345"),
    ]
    files.remember("s", "d", "1", None)
    assert files.seen("s", "a") is None
    files.remember("s", "c", "2", "1")
    files.forget("s", "b")
    files.remember("s", "e", "1", "123456789")
    assert files.seen("s", "c") == SeenFile("2", "1")
    assert files.lock("s") is not files.lock("t")

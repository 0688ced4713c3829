"""ApplyPatch: all hunks are checked, then all files are written, or none."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from agent_actors.domain.events import FileChanged
from agent_actors.domain.workspace.files import FileData, FileInfo
from agent_actors.errors import WorkspaceError
from agent_actors.testing import MemoryWorkspace, StepOutcome, cancel_at_every_step
from agent_actors.toolbox.presets import code
from tests.toolbox.helpers import Context, Tools

FILES: dict[str, str | bytes] = {
    "a.txt": "one\r\ntwo\r\n",
    "b.txt": "b\n",
    "c.bin": b"\0",
    "d.txt": "d\n",
}
PATCH = """\
*** Begin Patch
*** Update File: a.txt
-one
+1
*** Update File: ./a.txt
-two
+2
*** Add File: new/e.txt
+e
*** Delete File: c.bin
*** Update File: d.txt
*** Move to: moved/d.txt
 d
+D
*** End Patch"""
PATCHED = {
    "a.txt": b"1\r\n2\r\n",
    "b.txt": b"b\n",
    "moved/d.txt": b"d\nD\n",
    "new/e.txt": b"e\n",
}


def tools(workspace: MemoryWorkspace) -> Tools:
    return Tools(code(), Context(workspace))


def body(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def test_patch_changes_all_files() -> None:
    workspace = MemoryWorkspace(FILES)
    box = tools(workspace)
    result = await box.object("ApplyPatch", patch=PATCH)
    assert result == {
        "files": [
            {"path": "a.txt", "change": "updated"},
            {"path": "./a.txt", "change": "updated"},
            {"path": "new/e.txt", "change": "added"},
            {"path": "c.bin", "change": "deleted"},
            {"path": "moved/d.txt", "change": "moved", "from": "d.txt"},
        ]
    }
    assert workspace.files == PATCHED
    recorded = {event.path: event.content for event in box.context.recorded(FileChanged)}
    assert recorded == {
        "a.txt": "1\r\n2\r\n",
        "new/e.txt": "e\n",
        "moved/d.txt": "d\nD\n",
        "c.bin": None,
        "d.txt": None,
    }
    # The session knows the new content.
    assert await box.object("Edit", file_path="a.txt", old="1", new="one") == {"replacements": 1}


async def test_file_may_replace_a_deleted_one() -> None:
    workspace = MemoryWorkspace({"a.txt": "a\n", "b.txt": "b\n"})
    move = ("*** Delete File: b.txt", "*** Update File: a.txt", "*** Move to: b.txt", " a", "+c")
    await tools(workspace).object("ApplyPatch", patch=body(*move))
    assert workspace.files == {"b.txt": b"a\nc\n"}


async def test_inexact_hunks_are_counted() -> None:
    workspace = MemoryWorkspace({"a.txt": "one  \n"})
    patch = body("*** Update File: a.txt", "-one", "+two")
    result = await tools(workspace).object("ApplyPatch", patch=patch)
    assert result["inexact_hunks"] == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["*** Update File: a.txt", "-three", "+3"], "the lines of the hunk at line 5"),
        (["*** Add File: a.txt", "+x"], "a.txt already exists"),
        (["*** Delete File: none.txt"], "none.txt does not exist"),
        (["*** Update File: none.txt", "-a"], "none.txt does not exist"),
        (["*** Update File: c.bin", "-a"], "c.bin is not a text file"),
        (["*** Delete File: a.txt", "*** Update File: a.txt", "-one"], "a.txt does not exist"),
        (["*** Update File: a.txt", "*** Move to: b.txt", "-one"], "b.txt already exists"),
        (["*** Update File: ../a.txt", "-one"], "outside the workspace"),
        (["*** Add File: f.txt", "x"], "must begin with '+'"),
        (["*** Add File: b.txt/f.txt", "+x"], "a parent of b.txt/f.txt is a file"),
    ],
)
async def test_patch_that_does_not_fit_changes_nothing(lines: list[str], message: str) -> None:
    workspace = MemoryWorkspace(FILES)
    before = workspace.files
    box = tools(workspace)
    patch = body("*** Add File: first.txt", "+first", *lines)
    assert message in await box.error("ApplyPatch", patch=patch)
    assert workspace.files == before
    assert not box.context.events


class Failing(MemoryWorkspace):
    """A workspace in which the change of a path fails, and the following ones if it says so."""

    def __init__(self, path: str, *, keeps_failing: bool = False) -> None:
        super().__init__(FILES)
        self.failing_path = path
        self.keeps_failing = keeps_failing
        self.failed = False

    def fail(self, path: str) -> None:
        if path == self.failing_path or (self.failed and self.keeps_failing):
            self.failed = True
            raise WorkspaceError(f"no space for {path}", reason="failed")

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        self.fail(path)
        return await super().write(path, data, overwrite=overwrite, expected=expected)

    async def remove(self, path: str) -> None:
        self.fail(path)
        await super().remove(path)


@pytest.mark.parametrize("path", ["a.txt", "new/e.txt", "moved/d.txt", "c.bin", "d.txt"])
async def test_failed_write_restores_earlier_ones(path: str) -> None:
    workspace = Failing(path)
    before = workspace.files
    box = tools(workspace)
    assert await box.error("ApplyPatch", patch=PATCH) == f"no space for {path}"
    assert workspace.files == before
    assert not box.context.events


async def test_file_that_cannot_be_restored_is_named(caplog: pytest.LogCaptureFixture) -> None:
    workspace = Failing("new/e.txt", keeps_failing=True)
    error = await tools(workspace).error("ApplyPatch", patch=PATCH)
    assert "no space for new/e.txt; a.txt could not be restored (no space for a.txt)" in error
    assert "could not be undone" in caplog.text


async def test_change_by_others_survives_the_rollback() -> None:
    class Racing(Failing):
        def fail(self, path: str) -> None:
            if path == self.failing_path:
                self.put("a.txt", "other")
            super().fail(path)

    workspace = Racing("new/e.txt")
    error = await tools(workspace).error("ApplyPatch", patch=PATCH)
    assert "a.txt could not be restored (another program changed it)" in error
    assert workspace.text("a.txt") == "other"


async def test_unreadable_file_is_not_restored() -> None:
    class Unreadable(Failing):
        async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
            if self.failed:
                raise WorkspaceError("the disk is gone", reason="unavailable")
            return await super().read(path, offset=offset, limit=limit)

    error = await tools(Unreadable("new/e.txt")).error("ApplyPatch", patch=PATCH)
    assert "a.txt could not be restored (the disk is gone)" in error


async def test_slow_rollback_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    class Slow(Failing):
        async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
            if self.failed:
                await trio.sleep_forever()
            return await super().read(path, offset=offset, limit=limit)

    error = await tools(Slow("new/e.txt")).error("ApplyPatch", patch=PATCH)
    assert "a.txt was not restored in time" in error
    assert autojump_clock.current_time() >= 10


def test_cancelled_patch_is_applied_completely_or_not() -> None:
    @asynccontextmanager
    async def around() -> AsyncGenerator[Tools]:
        yield tools(MemoryWorkspace(FILES))

    async def apply(box: Tools) -> None:
        await box.object("ApplyPatch", patch=PATCH)

    before = MemoryWorkspace(FILES).files

    def check(step: int, outcome: StepOutcome[Tools]) -> None:
        del step
        workspace = outcome.subject.context.workspace
        assert isinstance(workspace, MemoryWorkspace)
        assert workspace.files == (before if outcome.cancelled else PATCHED)
        assert bool(outcome.subject.context.events) is not outcome.cancelled

    assert cancel_at_every_step(apply, around=around, check=check) > 15

"""Checkpoints over every workspace: with and without the optional methods of `TreeWorkspace`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_actors.abc.workspace import TreeWorkspace, Workspace
from agent_actors.domain.workspace.files import MAX_MATCHES
from agent_actors.domain.workspace.trees import FileChange, RestorePlan
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.testing import MemoryWorkspace
from agent_actors.toolbox.checkpoints.checkpointer import DirectoryCheckpointer
from agent_actors.toolbox.checkpoints.snapshots import restore_snapshot, take_snapshot
from tests.toolbox.checkpoints.helpers import since, undo
from tests.toolbox.workspace.places import PLACES


@pytest.fixture(params=[*PLACES, "MemoryWorkspace"])
async def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workspace]:
    if request.param == "MemoryWorkspace":
        yield MemoryWorkspace()
        return
    async with PLACES[request.param](tmp_path) as place:
        yield place.workspace


@pytest.fixture
def checkpointer(tmp_path: Path) -> DirectoryCheckpointer:
    return DirectoryCheckpointer(Checkpoints(directory=tmp_path / "checkpoints"))


async def write(workspace: Workspace, **files: str) -> None:
    for name, text in files.items():
        await workspace.write(name, text.encode())


async def texts(workspace: Workspace) -> dict[str, str]:
    found = await workspace.glob("**", limit=MAX_MATCHES)
    return {path: (await workspace.read(path)).data.decode() for path in found.paths}


async def test_changed_created_and_deleted_files_return(
    workspace: Workspace, checkpointer: DirectoryCheckpointer
) -> None:
    assert isinstance(workspace, TreeWorkspace) is not isinstance(workspace, MemoryWorkspace)
    await write(workspace, a="one", b="two", same="same")
    first = await checkpointer.take(workspace)
    assert (first.files, first.not_covered) == (3, ())
    await write(workspace, a="ONE", c="three")
    await workspace.write("deep/er/d", b"four")
    await workspace.remove("b")
    second = await checkpointer.take(workspace)
    assert await checkpointer.changes(first.id, second.id) == (
        FileChange("a", "written", "ONE"),
        FileChange("b", "deleted"),
        FileChange("c", "written", "three"),
        FileChange("deep/er/d", "written", "four"),
    )
    before = await texts(workspace)
    shown = await checkpointer.restore(workspace, since(first.id, second.id), dry_run=True)
    assert await texts(workspace) == before
    report = await checkpointer.restore(workspace, since(first.id, second.id), dry_run=False)
    assert shown.changes == report.changes
    assert [(one.path, one.kind) for one in report.changes] == [
        ("a", "written"),
        ("b", "written"),
        ("c", "deleted"),
        ("deep/er/d", "deleted"),
    ]
    assert (report.conflicts, report.not_covered) == ((), ())
    assert await texts(workspace) == {"a": "one", "b": "two", "same": "same"}
    again = await checkpointer.restore(workspace, since(second.id, report.after.id), dry_run=False)
    assert await texts(workspace) == before
    assert len(again.changes) == 4


async def test_unchanged_files_are_not_copied_again(
    workspace: Workspace, checkpointer: DirectoryCheckpointer, tmp_path: Path
) -> None:
    await write(workspace, a="one", b="two")
    await checkpointer.take(workspace)
    packs = {path.name for path in (tmp_path / "checkpoints/packs").iterdir()}
    await write(workspace, c="one", b="two")
    other = DirectoryCheckpointer(Checkpoints(directory=tmp_path / "checkpoints"))
    for one in (checkpointer, other):
        await one.take(workspace)
    assert {path.name for path in (tmp_path / "checkpoints/packs").iterdir()} == packs


async def test_files_that_others_changed_are_kept(
    workspace: Workspace, checkpointer: DirectoryCheckpointer
) -> None:
    await write(workspace, both="1", agent="1", others="1", late="1", later="1")
    start = await checkpointer.take(workspace)
    await write(workspace, both="2", agent="2", late="2", later="2")
    end = await checkpointer.take(workspace)
    await write(workspace, both="3", others="3", person="3")
    idle = await checkpointer.take(workspace)
    await write(workspace, agent="4")
    last = await checkpointer.take(workspace)
    await write(workspace, late="5")
    await workspace.remove("later")  # nothing of others is lost if the file is restored
    plan = RestorePlan(
        target=start.id,
        last=last.id,
        by_agent=((start.id, end.id), (idle.id, last.id)),
        by_others=((end.id, idle.id),),
    )
    report = await checkpointer.restore(workspace, plan, dry_run=False)
    assert report.conflicts == ("both", "late")
    assert [one.path for one in report.changes] == ["agent", "later"]
    expected = {"agent": "1", "later": "1", "both": "3", "late": "5", "others": "3", "person": "3"}
    assert await texts(workspace) == expected


async def test_large_files_are_reported(workspace: Workspace, tmp_path: Path) -> None:
    options = Checkpoints(directory=tmp_path / "checkpoints", max_file_bytes=3)
    checkpointer = DirectoryCheckpointer(options)
    await write(workspace, big="1234", small="12")
    first = await checkpointer.take(workspace)
    assert first.not_covered == ("1 files are too large or unreadable: big",)
    await write(workspace, big="12345", small="1")
    report = await undo(checkpointer, workspace, first.id)
    assert [one.path for one in report.changes] == ["small"]
    assert report.not_covered == ("1 files have no copy: big",)
    assert await texts(workspace) == {"big": "12345", "small": "12"}


async def test_too_many_files_are_reported(workspace: Workspace, tmp_path: Path) -> None:
    options = Checkpoints(directory=tmp_path / "checkpoints", max_files=2)
    checkpointer = DirectoryCheckpointer(options)
    await write(workspace, a="1", b="1", c="1")
    first = await checkpointer.take(workspace)
    assert first.not_covered == ("the workspace has more than 2 files",)
    await write(workspace, a="2")
    await workspace.remove("b")
    report = await undo(checkpointer, workspace, first.id)
    # The present list of files contains `c`, which may have existed before.
    assert report.not_covered == ("1 files have no copy: c",)
    assert await texts(workspace) == {"a": "1", "b": "1", "c": "1"}


async def test_full_directory_removes_no_new_checkpoint(
    workspace: Workspace, tmp_path: Path
) -> None:
    options = Checkpoints(directory=tmp_path / "checkpoints", max_bytes=2_000)
    checkpointer = DirectoryCheckpointer(options)
    await write(workspace, a="1" * 500)
    first = await checkpointer.take(workspace)
    await write(workspace, b="2" * 1_500)
    second = await checkpointer.take(workspace)
    assert second.not_covered == ("1 files are too large or unreadable: b",)
    await write(workspace, a="3")
    await undo(checkpointer, workspace, first.id)
    assert await texts(workspace) == {"a": "1" * 500}


async def test_missing_checkpoint_is_an_error(
    workspace: Workspace, checkpointer: DirectoryCheckpointer
) -> None:
    for checkpoint_id in ("0" * 64, "../../etc/passwd"):
        with pytest.raises(WorkspaceError, match="is not in") as raised:
            await undo(checkpointer, workspace, checkpoint_id)
        assert raised.value.reason == "not_found"


async def test_snapshot_moves_to_another_workspace(workspace: Workspace, tmp_path: Path) -> None:
    await write(workspace, a="one", b="two")
    snapshot = await take_snapshot(workspace, tmp_path / "out")
    assert snapshot.files == 2
    (tmp_path / "out").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / snapshot.path.relative_to(tmp_path / "out")
    other = MemoryWorkspace({"a": "other", "c": "extra"})
    report = await restore_snapshot(other, moved)
    assert await texts(other) == {"a": "one", "b": "two"}
    assert len(report.changes) == 3


async def test_directory_must_be_outside(workspace: Workspace, tmp_path: Path) -> None:
    inside = Path(workspace.describe().root) / "inside"
    with pytest.raises(ConfigError, match="must be outside the workspace"):
        await take_snapshot(workspace, inside)


async def test_file_that_changes_while_read(
    checkpointer: DirectoryCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy contains a complete content, and the next checkpoint notices the change."""
    workspace = MemoryWorkspace({"a": "old"})
    read = workspace.read

    async def disturbed(path: str, *, offset: int = 0, limit: int | None = None) -> object:
        found = await read(path, offset=offset, limit=limit)
        workspace.put("a", "new")
        monkeypatch.undo()
        return found

    monkeypatch.setattr(workspace, "read", disturbed)
    first = await checkpointer.take(workspace)
    second = await checkpointer.take(workspace)
    assert await checkpointer.changes(first.id, second.id) == (FileChange("a", "written", "new"),)

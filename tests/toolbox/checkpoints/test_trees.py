"""Checkpoints of directories: modes, symlinks, other kinds, rules, failures and crashes."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from agent_actors.abc.workspace import TreeWorkspace
from agent_actors.domain.workspace.trees import Checkpoint, RestorePlan, TreeEntry
from agent_actors.errors import WorkspaceError
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.testing import MemoryWorkspace
from agent_actors.toolbox.checkpoints.checkpointer import DirectoryCheckpointer
from agent_actors.toolbox.checkpoints.snapshots import restore_snapshot
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace
from tests.toolbox.checkpoints.helpers import content, undo
from tests.toolbox.workspace.places import OpenPlace, Place

# Takes a snapshot in a fork for each number; the fork is killed before that write.
CRASH = """
import os, signal, sys, trio
from pathlib import Path
from agent_actors.toolbox.workspace.local.workspace import LocalWorkspace

async def main():
    await LocalWorkspace(sys.argv[1]).snapshot(sys.argv[2])

def attempt(left, real=os.fdopen):
    def write(*args, **kwargs):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    os.fdopen = write
    trio.run(main)
    os._exit(0)

for step, text in ((0, "one"), (1, "two"), (2, "two")):
    Path(sys.argv[1], "a").write_text(text)
    child = os.fork()
    if not child:
        attempt(step)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    return tmp_path / "copies"


@pytest.fixture
def checkpointer(copies: Path) -> DirectoryCheckpointer:
    return DirectoryCheckpointer(Checkpoints(directory=copies))


@pytest.fixture
def made(place: Place) -> Place:
    """A workspace with every kind of entry."""
    root = place.root
    (root / "src/empty").mkdir(parents=True)
    (root / "src/run.sh").write_text("#!/bin/sh\n")
    (root / "src/run.sh").chmod(0o750)
    (root / "src/main.py").write_text("print()\n")
    (root / "to-main").symlink_to("src/main.py")
    (root / "to-outside").symlink_to(place.outside)
    (root / "kind").write_text("a file")
    return place


async def test_modes_links_and_kinds_return(
    made: Place, checkpointer: DirectoryCheckpointer
) -> None:
    root, before = made.root, content(made.root)
    first = await checkpointer.take(made.workspace)
    (root / "src/run.sh").chmod(0o600)
    (root / "src/main.py").unlink()
    (root / "src/main.py").symlink_to("run.sh")
    (root / "src/empty").rmdir()
    for name in ("to-main", "to-outside", "kind"):
        (root / name).unlink()
    (root / "to-main").symlink_to("elsewhere")
    (root / "to-outside").mkdir()
    (root / "to-outside/new").write_text("new")
    (root / "kind").mkdir()
    (root / "kind/below").symlink_to("x")
    (root / "new/empty").mkdir(parents=True)
    report = await undo(checkpointer, made.workspace, first.id)
    assert (report.conflicts, report.not_covered) == ((), ())
    assert content(root) == before
    assert not list(made.outside.iterdir())


async def test_other_kinds_and_hard_links(made: Place, checkpointer: DirectoryCheckpointer) -> None:
    root = made.root
    os.link(root / "kind", made.outside / "hard")
    os.mkfifo(root / "old-fifo")
    first = await checkpointer.take(made.workspace)
    (root / "kind").write_text("changed through the link")
    (root / "src/main.py").unlink()
    os.mkfifo(root / "src/main.py")
    report = await undo(checkpointer, made.workspace, first.id)
    assert report.conflicts == ("src/main.py",)
    assert (root / "src/main.py").is_fifo()
    assert (root / "kind").read_text() == "a file"
    # A restoration replaces the file, and leaves the other name alone.
    assert (made.outside / "hard").read_text() == "changed through the link"


async def test_ignored_and_protected_files_stay(
    made: Place, checkpointer: DirectoryCheckpointer
) -> None:
    root = made.root
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "build").mkdir()
    for name in ("a.log", "build/out", ".mcp.json", "src/secret.key"):
        (root / name).write_text("old")
    (root / ".git").mkdir()
    first = await checkpointer.take(made.workspace)
    (root / ".gitignore").write_text("*.key\n")
    for name in ("a.log", "build/out", ".mcp.json", ".git/config", "src/secret.key"):
        (root / name).write_text("new")
    report = await undo(checkpointer, made.workspace, first.id)
    # The new rules show files that may have existed, and hide one that has changed.
    assert report.not_covered == ("2 files have no copy: a.log, build/out",)
    assert report.conflicts == ("src/secret.key",)
    assert (root / ".gitignore").read_text() == "*.log\nbuild/\n"
    for name in ("a.log", "build/out", ".mcp.json", ".git/config", "src/secret.key"):
        assert (root / name).read_text() == "new"


async def test_hidden_unchanged_file_is_no_conflict(
    made: Place, checkpointer: DirectoryCheckpointer
) -> None:
    first = await checkpointer.take(made.workspace)
    (made.root / ".gitignore").write_text("*.py\n")
    report = await undo(checkpointer, made.workspace, first.id)
    assert [one.path for one in report.changes] == [".gitignore"]
    assert report.conflicts == ()


async def test_swapped_directory_leads_nowhere(
    made: Place, checkpointer: DirectoryCheckpointer
) -> None:
    first = await checkpointer.take(made.workspace)
    (made.root / "src/main.py").write_text("changed")
    (made.outside / "main.py").write_text("foreign")
    (made.root / "src").rename(made.root / "moved")
    (made.root / "src").symlink_to(made.outside)
    entry = TreeEntry(path="src/main.py", kind="file")
    workspace = made.workspace
    assert isinstance(workspace, TreeWorkspace)
    with pytest.raises(WorkspaceError, match=r"symlink|outside"):
        await workspace.put(entry, b"x", expected="")
    with pytest.raises(WorkspaceError, match=r"symlink|outside"):
        await workspace.discard("src/main.py", expected="")
    await undo(checkpointer, workspace, first.id)
    assert (made.outside / "main.py").read_text() == "foreign"
    assert (made.root / "src/main.py").read_text() == "print()\n"
    assert not (made.root / "src").is_symlink()


async def test_changed_file_is_not_replaced(made: Place) -> None:
    workspace = made.workspace
    assert isinstance(workspace, TreeWorkspace)
    version = (await workspace.stat("kind")).version
    (made.root / "kind").write_text("changed")
    entry = TreeEntry(path="kind", kind="file", mode=0o600)
    for expected, reason in ((version, "changed"), ("", "exists")):
        with pytest.raises(WorkspaceError) as raised:
            await workspace.put(entry, b"x", expected=expected)
        assert raised.value.reason == reason
    for path, reason in (("kind", "changed"), (".git", "not_found"), ("src", "not_empty")):
        with pytest.raises(WorkspaceError) as raised:
            await workspace.discard(path, expected=version)
        assert raised.value.reason == reason
    protected = TreeEntry(path=".git/hooks/pre-commit", kind="file")
    with pytest.raises(WorkspaceError) as raised:
        await workspace.put(protected, b"x", expected="")
    assert raised.value.reason == "protected"


async def test_quick_change_of_same_size_is_noticed(
    made: Place, checkpointer: DirectoryCheckpointer
) -> None:
    """Clocks of file systems are coarse: a change can leave the version as it was."""
    first = await checkpointer.take(made.workspace)
    path = made.root / "kind"
    status = path.stat()
    path.write_bytes(b"A FILE")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = await checkpointer.take(made.workspace)
    (change,) = await checkpointer.changes(first.id, second.id)
    assert (change.path, change.text) == ("kind", "A FILE")


async def test_failed_writes_are_repeated(
    made: Place, checkpointer: DirectoryCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(made.root)
    first = await checkpointer.take(made.workspace)
    for name in ("kind", "src/main.py"):
        (made.root / name).write_text("changed")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WorkspaceError, match=r"the disk is full.* 1 more files failed"):
        await undo(checkpointer, made.workspace, first.id)
    monkeypatch.setattr(os, "write", real)
    assert (made.root / "kind").read_text() == "changed"
    await undo(checkpointer, made.workspace, first.id)
    assert content(made.root) == before


async def test_full_disk_fails_the_checkpoint(
    made: Place, checkpointer: DirectoryCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(WorkspaceError, match="No space left on device"):
        await checkpointer.take(made.workspace)
    monkeypatch.undo()
    await checkpointer.take(made.workspace)


async def test_damaged_copy_is_not_restored(
    made: Place, checkpointer: DirectoryCheckpointer, copies: Path
) -> None:
    first = await checkpointer.take(made.workspace)
    (made.root / "kind").write_text("changed")
    for pack in (copies / "packs").iterdir():
        pack.write_bytes(b"x" * pack.stat().st_size)
    report = await undo(checkpointer, made.workspace, first.id)
    assert report.not_covered == ("1 files have no copy: kind",)
    assert (made.root / "kind").read_text() == "changed"


async def test_restoration_is_cancelled_at_every_file(
    open_place: OpenPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a cancellation, a repeated restoration does the rest, also if it was the last run's."""
    async with open_place(tmp_path) as place:
        checkpointer = DirectoryCheckpointer(Checkpoints(directory=tmp_path / "copies"))
        workspace, root = place.workspace, place.root
        for name in ("a", "b", "c"):
            (root / name).write_text("old")
        before = content(root)
        first = await checkpointer.take(workspace)
        step = 0
        for step in range(1, 20):
            (root / "a").write_text("new")
            (root / "b").unlink(missing_ok=True)
            (root / "b").symlink_to("a")
            (root / "d").mkdir()
            (root / "d/e").write_text("new")
            last = await checkpointer.take(workspace)
            left = step
            with trio.CancelScope() as scope, monkeypatch.context() as patched:

                def counted(name: str, scope: trio.CancelScope = scope) -> None:
                    real = getattr(workspace, name)

                    async def call(*args: object, **kwargs: object) -> object:
                        nonlocal left
                        left -= 1
                        if left == 0:
                            scope.cancel()
                        return await real(*args, **kwargs)

                    patched.setattr(workspace, name, call)

                for name in ("tree", "load", "put", "discard", "stat"):
                    counted(name)
                await undo(checkpointer, workspace, first.id)
            assert not list(root.rglob(".agent-actors-*"))
            # Since the restoration is not recorded, the changes seem to be made by others.
            plan = RestorePlan(target=first.id, last=last.id, by_agent=((first.id, last.id),))
            report = await checkpointer.restore(workspace, plan, dry_run=False)
            assert report.conflicts == ()
            assert content(root) == before, step
            if not scope.cancelled_caught:
                break
        assert step > 5


def test_killed_process_leaves_earlier_checkpoints(tmp_path: Path) -> None:
    """A process is killed while it writes a pack, and while it writes a manifest."""
    root, copies = tmp_path / "root", tmp_path / "copies"
    root.mkdir()
    command = [sys.executable, "-c", CRASH, str(root), str(copies)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout.split() == ["0", str(-signal.SIGKILL), str(-signal.SIGKILL)]
    assert len(list(copies.rglob(".tmp-*"))) == 2
    (manifest,) = (path for path in (copies / "manifests").iterdir() if path.name.isalnum())

    async def restore() -> None:
        checkpointer = DirectoryCheckpointer(Checkpoints(directory=copies))
        workspace = LocalWorkspace(root)
        await checkpointer.take(workspace)
        await restore_snapshot(workspace, manifest)
        await workspace.aclose()

    trio.run(restore)
    assert (root / "a").read_text() == "one"


def test_old_copies_are_removed(tmp_path: Path) -> None:
    """The oldest checkpoints and their packs make room; recent ones are kept."""

    async def main() -> None:
        checkpointer = DirectoryCheckpointer(
            Checkpoints(directory=tmp_path / "copies", max_bytes=20_000)
        )
        workspace = MemoryWorkspace()
        taken: list[Checkpoint] = []
        for number in range(6):
            workspace.put("a", str(number) * 5_000)
            taken.append(await checkpointer.take(workspace))
            for path in (tmp_path / "copies").rglob("*"):
                os.utime(path, (number, number))
        size = sum(p.stat().st_size for p in (tmp_path / "copies").rglob("*") if p.is_file())
        assert size <= 20_000
        assert all(not one.not_covered for one in taken)
        await undo(checkpointer, workspace, taken[-2].id)
        assert workspace.text("a") == "4" * 5_000
        with pytest.raises(WorkspaceError, match="is not in"):
            await undo(DirectoryCheckpointer(checkpointer._options), workspace, taken[0].id)

    trio.run(main)

"""`LocalWorkspace`: construction, processes, and the protection of renamed directories."""

import gc
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from agent_actors.domain.workspace.processes import ProcessLimits, ProcessSpec
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.toolbox.workspace import LocalWorkspace


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only the number is needed


def test_other_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(WorkspaceError, match="need Linux, and this system is darwin") as raised:
        LocalWorkspace(tmp_path)
    assert raised.value.reason == "unavailable"


def test_unusable_root_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = descriptors()
    for path in ("missing", "file"):
        with pytest.raises(WorkspaceError, match="directory of the workspace cannot be opened"):
            LocalWorkspace(tmp_path, [tmp_path / path])
    assert descriptors() == before


def test_discarded_workspace_closes_its_roots(tmp_path: Path) -> None:
    before = descriptors()
    workspace = LocalWorkspace(tmp_path)
    assert descriptors() == before + 1
    del workspace
    gc.collect()
    assert descriptors() == before


async def test_closing_waits_for_operations(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    closed = trio.Event()

    async def close() -> None:
        await workspace.aclose()
        closed.set()

    async with trio.open_nursery() as nursery:
        async with workspace.directory(".") as held:
            assert held.path == str(tmp_path)
        nursery.start_soon(workspace.write, "a.txt", b"x" * 1_000_000)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(close)
        await closed.wait()
    assert (tmp_path / "a.txt").stat().st_size == 1_000_000


async def test_renamed_directory_stays_protected(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".claude").mkdir()
    workspace = LocalWorkspace(tmp_path)
    (tmp_path / ".git").rename(tmp_path / "git")
    (tmp_path / ".claude").rename(tmp_path / "notes")
    for path in ("git/hooks/pre-commit", "git/config", "notes/settings.json", "notes/a/b"):
        with pytest.raises(WorkspaceError) as raised:
            await workspace.write(path, b"")
        assert raised.value.reason == "protected"
    await workspace.write("git/description", b"")
    await workspace.aclose()


async def test_moved_root_is_still_used(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    workspace = LocalWorkspace(tmp_path / "root")
    (tmp_path / "root").rename(tmp_path / "moved")
    (tmp_path / "root").mkdir()
    await workspace.write("a.txt", b"a")
    assert (tmp_path / "moved/a.txt").read_text() == "a"
    await workspace.aclose()


async def test_nested_roots_join(tmp_path: Path) -> None:
    """A path that leaves the root into an allowed directory around it is allowed."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    workspace = LocalWorkspace(tmp_path / "root", [tmp_path])
    assert (await workspace.read("../b.txt")).data == b"b"
    assert (await workspace.stat(f"{tmp_path / 'root'}/../b.txt")).path == f"{tmp_path}/b.txt"
    assert (await workspace.stat("../root/a.txt")).path == "a.txt"
    with pytest.raises(WorkspaceError) as raised:
        await workspace.read("../../x")
    assert raised.value.reason == "refused"
    await workspace.aclose()


# Processes.


async def test_processes_are_refused_by_default(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    for spec in (ProcessSpec(argv=("ls", "-l")), ProcessSpec(argv="ls -l")):
        with pytest.raises(WorkspaceError, match="runs no commands") as raised:
            await workspace.exec(spec)
        assert (raised.value.reason, raised.value.path) == ("refused", "ls -l")
        with pytest.raises(WorkspaceError):
            await workspace.start(spec, print)
    report = workspace.describe()
    assert (report.processes, report.limits, report.refused) == ("refused", None, 4)
    await workspace.aclose()


async def test_unconfined_command_starts_in_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    workspace = LocalWorkspace(tmp_path, processes="unconfined")
    before = descriptors()
    result = await workspace.exec(ProcessSpec(argv="pwd -P", cwd="link"))
    assert (result.stdout, result.end.exit_code) == (f"{tmp_path}/a\n".encode(), 0)
    seen: list[bytes] = []
    process = await workspace.start(ProcessSpec(argv="pwd -P"), lambda _, data: seen.append(data))
    assert (await process.wait()).exit_code == 0
    assert b"".join(seen) == f"{tmp_path}\n".encode()
    with pytest.raises(WorkspaceError, match="leads outside"):
        await workspace.exec(ProcessSpec(argv=("ls",), cwd=".."))
    report = workspace.describe()
    assert (report.processes, report.limits) == ("unconfined", ProcessLimits())
    assert report.unenforced
    await workspace.aclose()
    assert descriptors() <= before


def test_other_way_to_run_commands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BubblewrapWorkspace"):
        LocalWorkspace(tmp_path, processes=cast(Any, "sandboxed"))

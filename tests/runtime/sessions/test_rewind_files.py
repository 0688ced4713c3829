"""Checkpoints of runs, and rewinds that restore the files of the workspace."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from agent_actors import AgentOptions, Runtime, open_runtime
from agent_actors.abc import Workspace
from agent_actors.domain.events import FileChanged, WorkspaceCheckpoint
from agent_actors.domain.workspace.processes import ProcessEnd, ProcessResult, ProcessSpec
from agent_actors.domain.workspace.trees import FileChange
from agent_actors.errors import ConfigError, SessionBusy, SessionUnknown, WorkspaceError
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.runtime import wiring
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import MemoryWorkspace, ScriptedModel, Turn, call
from agent_actors.toolbox.checkpoints.checkpointer import DirectoryCheckpointer


class CommandWorkspace(MemoryWorkspace):
    """A workspace whose commands change files: `rm NAME`, or `make NAME=TEXT`."""

    def __init__(self, **files: str) -> None:
        super().__init__(files, commands=self._command)

    async def _command(self, spec: ProcessSpec) -> ProcessResult:
        name, _, rest = str(spec.argv).partition(" ")
        if name == "rm":
            await self.remove(rest)
        else:
            path, _, text = rest.partition("=")
            self.put(path, b"\0" + text.encode() if name == "binary" else text)
        return ProcessResult(end=ProcessEnd(exit_code=0))


def agent(workspace: Workspace | None, copies: Path | None, *turns: Turn) -> AgentOptions:
    return AgentOptions(
        model="m",
        provider=ScriptedModel([*turns, "Done."]),
        builtin_tools=["Write", "Bash"] if workspace is not None else [],
        workspace=workspace,
        checkpoints=copies,
        permissions="bypass",
    )


def untyped(method: object) -> Callable[..., Awaitable[object]]:
    """Return a method for arguments that a type checker refuses."""
    return cast("Callable[..., Awaitable[object]]", method)


def write(path: str, text: str) -> Turn:
    return call("Write", {"file_path": path, "content": text})


def bash(command: str) -> Turn:
    return call("Bash", {"command": command})


async def checkpoints(runtime: Runtime, session_id: str = "s") -> list[WorkspaceCheckpoint]:
    records = await runtime.sessions.records(session_id)
    return [one for one in records if isinstance(one, WorkspaceCheckpoint)]


async def test_result_names_files_that_commands_changed(tmp_path: Path) -> None:
    workspace = CommandWorkspace(a="1", b="1", c="1")
    turns = [write("a", "2"), write("new", "x"), bash("rm new"), bash("rm b"), bash("make d/e=3")]
    options = agent(workspace, tmp_path, *turns, bash("binary f=4"), write("same", "s"))
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        assert [(one.path, one.kind, one.text) for one in result.files] == [
            ("a", "written", "2"),
            ("b", "deleted", None),
            ("d/e", "written", "3"),
            ("f", "written", None),
            ("new", "deleted", None),
            ("same", "written", "s"),
        ]
        binary = result.files[3]
        assert (binary.digest[:7], binary.size) == ("sha256:", 2)
        records = await runtime.sessions.records("s")
        paths = [one.path for one in records if isinstance(one, FileChanged)]
        assert paths == ["a", "new", "same", "b", "d/e", "f", "new"]
        types = [one.type for one in records]
        assert types[0] == "workspace.checkpoint"
        assert types[-2:] == ["workspace.checkpoint", "result"]
        snapshot = await runtime.sessions.snapshot("s")
        assert snapshot is not None
        assert snapshot.files == {"a": "2", "d/e": "3", "same": "s"}
        first, last = await checkpoints(runtime)
        assert (first.phase, first.files, last.phase, last.files) == ("before", 3, "after", 5)


async def test_result_names_files_without_checkpoints() -> None:
    workspace = CommandWorkspace(a="1")
    options = agent(workspace, None, write("a", "2"), bash("make d=3"))
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        assert result.files == (FileChange("a", "written", "2"),)
        assert not await checkpoints(runtime)
        with pytest.raises(ConfigError, match="has no checkpoint of the workspace /workspace"):
            await runtime.sessions.rewind("s", 0, files=True)


async def test_rewind_restores_conversation_and_files(tmp_path: Path) -> None:
    workspace = CommandWorkspace(a="1", b="1")
    async with open_runtime() as runtime:
        sessions = runtime.sessions
        first = agent(workspace, tmp_path, write("a", "2"))
        await runtime.run("One.", first, session_id="s")
        middle = (await sessions.records("s"))[-1].seq or 0
        second = agent(workspace, tmp_path, bash("rm b"), write("c", "3"))
        await runtime.run("Two.", second, session_id="s")
        count = len(await sessions.records("s"))
        after = dict(workspace.files)

        shown = await sessions.rewind("s", middle, files=True, dry_run=True)
        assert (shown.dry_run, len(shown.messages)) == (True, 10)
        assert (len(await sessions.records("s")), workspace.files) == (count, after)
        done = await sessions.rewind("s", middle, files=True)
        assert (done.changes, done.conflicts) == (shown.changes, ())
        assert [(one.path, one.kind) for one in done.changes] == [
            ("b", "written"),
            ("c", "deleted"),
        ]
        assert workspace.files == {"a": b"2", "b": b"1"}
        assert len(done.messages) == 4

        # A rewind can be rewound, and a fork keeps the checkpoints.
        await sessions.rewind("s", count, files=True)
        assert workspace.files == after
        await sessions.fork("s", new_id="fork")
        await sessions.rewind("fork", 0, files=True, workspace=workspace, checkpoints=str(tmp_path))
        assert workspace.files == {"a": b"1", "b": b"1"}


async def test_another_process_rewinds(tmp_path: Path) -> None:
    workspace, store = CommandWorkspace(a="1"), MemoryStore()
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", agent(workspace, tmp_path, write("a", "2")), session_id="s")
        lines = await runtime.sessions.export("s")
    async with open_runtime() as runtime:
        sessions = runtime.sessions
        await sessions.import_records(lines)
        with pytest.raises(ConfigError, match="is not open; pass workspace="):
            await sessions.rewind("s", 0, files=True)
        with pytest.raises(ConfigError, match="not a function"):
            await untyped(sessions.rewind)("s", 0, files=True, workspace=len)
        other = Checkpoints(directory=tmp_path / "empty")
        with pytest.raises(WorkspaceError, match="it was made elsewhere"):
            await sessions.rewind("s", 0, files=True, workspace=workspace, checkpoints=other)
        assert await sessions.history("s")
        await sessions.rewind("s", 0, files=True, workspace=workspace, checkpoints=str(tmp_path))
        assert workspace.text("a") == "1"
        assert not await sessions.history("s")


async def test_workspace_of_a_table_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("1")
    table = {"type": "local", "root": root}
    options = agent(CommandWorkspace(), tmp_path / "copies", write("a", "2")).evolve(
        workspace=table
    )
    async with open_runtime() as runtime:
        await runtime.run("Go.", options, session_id="s")
        shown = await runtime.sessions.rewind("s", 0, files=True, dry_run=True, workspace=table)
        assert (root / "a").read_text() == "2"
        assert len(shown.changes) == 1
        await runtime.sessions.rewind("s", 0, files=True)
        assert (root / "a").read_text() == "1"


async def test_invalid_rewind_changes_nothing(tmp_path: Path) -> None:
    workspace = CommandWorkspace(a="1")
    options = agent(workspace, tmp_path, write("a", "2"))
    async with open_runtime() as runtime:
        sessions = runtime.sessions
        with pytest.raises(SessionUnknown):
            await sessions.rewind("s", 0, files=True, workspace=workspace)
        with pytest.raises(ConfigError, match="require files=True"):
            await untyped(sessions.rewind)("s", 0, dry_run=True)
        await runtime.run("Go.", agent(workspace, tmp_path, write("a", "2")), session_id="s")
        with pytest.raises(ConfigError, match="to_seq must be from 0"):
            await sessions.rewind("s", 99, files=True)
        async with runtime.stream("Go.", options, session_id="s") as events:
            async for _ in events:
                with pytest.raises(SessionBusy):
                    await sessions.rewind("s", 0, files=True)
                break
        assert workspace.text("a") == "2"


async def test_failed_restoration_keeps_the_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = CommandWorkspace(a="1")
    async with open_runtime() as runtime:
        await runtime.run("Go.", agent(workspace, tmp_path, write("a", "2")), session_id="s")
        before = await runtime.sessions.records("s")

        async def fail(*args: object, **kwargs: object) -> None:
            raise WorkspaceError("the disk is full", reason="failed", path="a")

        with monkeypatch.context() as patched:
            patched.setattr(workspace, "write", fail)
            with pytest.raises(WorkspaceError, match="not all files were restored: the disk"):
                await runtime.sessions.rewind("s", 0, files=True)
        assert await runtime.sessions.records("s") == before
        await runtime.sessions.rewind("s", 0, files=True)
        assert workspace.text("a") == "1"


async def test_failed_checkpoint_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = CommandWorkspace(a="1")

    async def fail(*args: object) -> None:
        raise WorkspaceError("the disk is full", reason="failed")

    async with open_runtime() as runtime:
        with monkeypatch.context() as patched:
            patched.setattr(DirectoryCheckpointer, "take", fail)
            result = await runtime.run(
                "Go.", agent(workspace, tmp_path, write("a", "2")), session_id="s"
            )
        assert result.files == (FileChange("a", "written", "2"),)
        errors = [(one.phase, one.error) for one in await checkpoints(runtime)]
        assert errors == [("before", "the disk is full"), ("after", "the disk is full")]


async def test_cancelled_run_has_both_checkpoints(tmp_path: Path) -> None:
    workspace = CommandWorkspace(a="1")
    options = agent(workspace, tmp_path, write("a", "2"))
    async with open_runtime() as runtime:
        async with runtime.stream("Go.", options, session_id="s") as events:
            async for event in events:
                if isinstance(event, FileChanged):
                    break
        assert [one.phase for one in await checkpoints(runtime)] == ["before", "after"]
        await runtime.sessions.rewind("s", 0, files=True)
        assert workspace.text("a") == "1"


async def test_runs_without_need_make_no_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(wiring, "make_checkpointer", made.append)
    async with open_runtime() as runtime:
        unchangeable = MemoryWorkspace(read_only=True)
        for workspace, copies in (
            (None, tmp_path),
            (CommandWorkspace(), None),
            (unchangeable, tmp_path),
        ):
            await runtime.run("Go.", agent(workspace, copies), session_id="s")
        assert not await checkpoints(runtime)
    assert not made


async def test_directory_inside_the_workspace_is_refused() -> None:
    async with open_runtime() as runtime:
        inside = agent(CommandWorkspace(), Path("/workspace/inside"))
        with pytest.raises(ConfigError, match="must be outside the workspace"):
            await runtime.run("Go.", inside, session_id="s")

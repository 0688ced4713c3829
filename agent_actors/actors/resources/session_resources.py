"""SessionResources: owns the resources that a session keeps between its runs.

For each session, the actor owns the workspace and the background commands. Runs lease them: the
first lease creates the workspace, and nested runs share the lease of the run that started them. A
workspace is closed when its session is deleted, when no run has used it and no background command
has run for some time, when a run needs a different workspace, and when the runtime closes. It is
never closed while it is leased, and a new lease waits until a close that is under way has ended.

One task per workspace waits for its end and closes it, also if the actor is torn down. A session
without a workspace has no entry here.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, cast

import attrs
import trio

from agent_actors.abc import Checkpointer, Workspace
from agent_actors.actors.resources.background_commands import (
    BackgroundCommand,
    command_text,
    end_record,
    start_record,
)
from agent_actors.actors.resources.leased_workspace import KILL_TIMEOUT, LeasedWorkspace
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.ids import Ids
from agent_actors.domain.run import RunInfo
from agent_actors.domain.workspace.background import (
    BackgroundOutput,
    BackgroundOwner,
    BackgroundTask,
)
from agent_actors.domain.workspace.processes import ProcessEnd, ProcessSpec
from agent_actors.domain.workspace.report import WorkspaceReport
from agent_actors.errors import AgentError, ConfigError, RuntimeShutdown, WorkspaceError
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.exceptions import is_cancellation
from agent_actors.kernel.fair_limiter import FairLimiter, LimiterStatistics
from agent_actors.kernel.interrupts import await_unprotected, call_unprotected
from agent_actors.options.workspace_config import WorkspaceConfig, WorkspaceSource, same_source

_LOG: Final = logging.getLogger(__name__)

# The maximum number of commands that tools run at a time in one runtime; the others wait.
COMMANDS_PER_RUNTIME: Final = 32
# The maximum number of background commands that run at a time.
BACKGROUND_PER_SESSION: Final = 8
BACKGROUND_PER_RUNTIME: Final = 64
# The number of ended background commands per session whose output can still be read.
KEPT_ENDED: Final = 8
# Seconds that the workspace of an idle session is kept.
WORKSPACE_TTL: Final = 3600.0
# Time limit, in seconds, for closing one workspace.
CLOSE_TIMEOUT: Final = 30.0

MakeWorkspace: TypeAlias = Callable[[WorkspaceConfig, Path], Workspace]
"""Creates a workspace from its configuration and the working directory; called in a thread."""


@attrs.frozen
class ResourceStatistics:
    """A snapshot of the resources of sessions.

    Attributes:
        workspaces: Workspaces that are open or being closed.
        leases: Leases that runs hold.
        commands: The slots for commands that tools run and wait for.
        background: The background commands of each session that has any, oldest first.
    """

    workspaces: int
    leases: int
    commands: LimiterStatistics
    background: Mapping[str, tuple[BackgroundTask, ...]]


@attrs.define(eq=False)
class _Entry:
    """The resources of one session."""

    session_id: str
    source: WorkspaceSource
    workspace: Workspace | None = None
    # The checkpoints that the last run with checkpoints made.
    checkpointer: Checkpointer | None = None
    leases: int = 0
    # The lease of the run that holds the session, whose log records starts and ends of commands.
    recorder: "WorkspaceLease | None" = None
    commands: dict[str, BackgroundCommand] = attrs.field(factory=dict[str, BackgroundCommand])
    starting: int = 0
    closing: bool = False
    idle_since: float = 0.0
    # Set when the workspace was created, or could not be created.
    opened: trio.Event = attrs.field(factory=trio.Event)
    closed: trio.Event = attrs.field(factory=trio.Event)
    sleep: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def is_used(self) -> bool:
        return bool(self.leases or self.running)

    @property
    def running(self) -> int:
        return self.starting + sum(command.is_running for command in self.commands.values())

    def end(self) -> None:
        self.closing = True
        self.sleep.cancel("the workspace ends")

    def wake(self) -> None:
        """Let the task of the workspace look at its state again."""
        self.sleep.cancel("the state changed")


@attrs.define(eq=False)
class WorkspaceLease:
    """The right of one run to use the resources of a session.

    Attributes:
        workspace: The workspace, for the tools of the run.
        background: The background commands of the session.
    """

    workspace: LeasedWorkspace
    background: "LeasedBackground"
    _entry: _Entry
    _resources: "SessionResources"
    _released: bool = attrs.field(default=False, init=False)
    _record: Callable[[EventBuilder], None] | None = attrs.field(default=None, init=False)

    @property
    def is_released(self) -> bool:
        """True if the run has ended."""
        return self._released

    @property
    def source(self) -> Workspace:
        """The workspace itself, for checkpoints."""
        assert self._entry.workspace is not None
        return self._entry.workspace

    def remember(self, checkpointer: Checkpointer) -> None:
        """Remember the checkpoints of the workspace for a rewind."""
        self._entry.checkpointer = checkpointer

    def share(self, owner: BackgroundOwner) -> "WorkspaceLease":
        """Return a lease of the same resources for a nested run.

        Args:
            owner: The owner of the background commands that the nested run starts.
        """
        return self._resources.grant(self._entry, owner)

    def fits(self, source: WorkspaceSource) -> bool:
        """Return whether these options certainly describe the same workspace."""
        return same_source(self._entry.source, source)

    def record_with(self, record: Callable[[EventBuilder], None]) -> None:
        """Record the starts and ends of background commands in the log of this run."""
        self._record = record
        self._entry.recorder = self

    def note(self, builder: EventBuilder) -> bool:
        """Give a record to the run; return False if the run takes no more records."""
        if self._record is None:
            return False
        self._record(builder)
        return True

    def stop_recording(self) -> None:
        """Give no more records to the run; they are kept for the next run of the session."""
        self._record = None
        if self._entry.recorder is self:
            self._entry.recorder = None

    def describe(self) -> WorkspaceReport:
        """Return the report about the workspace."""
        return self.workspace.describe()

    async def end_processes(self) -> None:
        """End the processes that tools of the run left running, before the run ends.

        Cancellation: shielded; there is a time limit.
        """
        if self.workspace.has_processes:
            await self.workspace.end_processes()

    def release(self) -> None:
        """Give the resources back. Idempotent."""
        if not self._released:
            self._released = True
            self.stop_recording()
            self.workspace.release()
            self._resources.take_back(self._entry)


@attrs.frozen(eq=False)
class LeasedBackground:
    """The background commands of a session, for one run; see `abc.BackgroundTasks`."""

    _resources: "SessionResources"
    _entry: _Entry
    _owner: BackgroundOwner

    async def start(self, spec: ProcessSpec) -> BackgroundTask:
        """See `BackgroundTasks.start`."""
        return await self._resources.start_command(self._entry, spec, self._owner)

    async def read(self, task_id: str) -> BackgroundOutput:
        """See `BackgroundTasks.read`."""
        command = self._find(task_id)
        await trio.lowlevel.checkpoint()
        return command.read()

    async def kill(self, task_id: str) -> BackgroundOutput:
        """See `BackgroundTasks.kill`."""
        command = self._find(task_id)
        await self._resources.kill_command(command)
        return command.read()

    def list(self) -> tuple[BackgroundTask, ...]:
        """See `BackgroundTasks.list`."""
        return tuple(command.task for command in self._entry.commands.values())

    def _find(self, task_id: str) -> BackgroundCommand:
        command = self._entry.commands.get(task_id)
        if command is None:
            known = ", ".join(self._entry.commands) or "none"
            raise WorkspaceError(
                f"no background command has the id {task_id!r:.80}; the known ids are: {known}",
                reason="not_found",
            )
        return command


class SessionResources:
    """The resources of the sessions of one runtime.

    Args:
        make_workspace: Creates a workspace from its configuration.
        ids: Makes the ids of background commands.
        wall_clock: Returns seconds since the epoch.
        ttl: Seconds that the workspace of an idle session is kept.
        commands: The maximum number of commands that tools run at a time.
        background_per_session: The maximum number of running background commands of a session.
        background_per_runtime: The maximum number of running background commands.
    """

    def __init__(
        self,
        make_workspace: MakeWorkspace,
        ids: Ids,
        wall_clock: Callable[[], float],
        *,
        ttl: float = WORKSPACE_TTL,
        commands: int = COMMANDS_PER_RUNTIME,
        background_per_session: int = BACKGROUND_PER_SESSION,
        background_per_runtime: int = BACKGROUND_PER_RUNTIME,
    ) -> None:
        self.owner: ActorLoop = ActorLoop("session_resources")
        self._make_workspace = make_workspace
        self._ids = ids
        self._wall_clock = wall_clock
        self._ttl = ttl
        self._slots = FairLimiter(commands)
        self._per_session = background_per_session
        self._per_runtime = background_per_runtime
        self._entries: dict[str, _Entry] = {}
        # The entries of deleted sessions whose commands belong to the runtime.
        self._detached: set[_Entry] = set()

    # Lease workspaces.

    async def lease(
        self, source: WorkspaceSource, info: RunInfo, cwd: Path, owner: BackgroundOwner
    ) -> WorkspaceLease:
        """Lease the resources of a session; the first lease creates the workspace.

        Args:
            source: The workspace of the run's agent.
            info: The run that leases them.
            cwd: The directory to which a configured root is relative.
            owner: The owner of the background commands that the run starts.

        Raises:
            ConfigError: The workspace cannot be created as configured.
            WorkspaceError: The factory failed, or the workspace is not available.

        Cancellation: safe; a cancelled call holds nothing.
        """
        entry = self._entries.get(info.session_id)
        if entry is not None and self._serves(entry, source):
            return self.grant(entry, owner)
        return await self.owner.ask(partial(self._lease, source, info, cwd, owner))

    def borrow(self, session_id: str) -> WorkspaceLease | None:
        """Return a lease of the resources of a session; None if it has no open workspace."""
        entry = self._entries.get(session_id)
        if entry is None or entry.workspace is None or entry.closing:
            return None
        return self.grant(entry, "session")

    def checkpointer(self, session_id: str) -> Checkpointer | None:
        """Return the checkpoints of the session's last run that made any, if it is in memory."""
        entry = self._entries.get(session_id)
        return None if entry is None else entry.checkpointer

    def grant(self, entry: _Entry, owner: BackgroundOwner) -> WorkspaceLease:
        """Return a lease of open resources; for `lease` and `WorkspaceLease.share`."""
        assert entry.workspace is not None
        entry.leases += 1
        workspace = LeasedWorkspace(entry.workspace, self._slots, entry.session_id)
        background = LeasedBackground(self, entry, owner)
        return WorkspaceLease(workspace, background, entry, self)

    def take_back(self, entry: _Entry) -> None:
        """Note that a lease was released; for `WorkspaceLease.release`."""
        entry.leases -= 1
        self._note_use(entry)

    def forget(self, session_id: str) -> None:
        """End the resources of a deleted session, except for commands that the runtime owns."""
        entry = self._entries.get(session_id)
        if entry is None:
            return
        if any(one.is_running and one.task.owner == "runtime" for one in entry.commands.values()):
            del self._entries[session_id]
            self._detached.add(entry)
            for command in entry.commands.values():
                if command.is_running and command.task.owner == "session":
                    self.owner.start_background(partial(self._kill, command))
        entry.end()

    # Background commands.

    def tasks(self, session_id: str) -> tuple[BackgroundTask, ...]:
        """Return the background commands of a session that are in memory, oldest first."""
        entry = self._entries.get(session_id)
        return () if entry is None else tuple(one.task for one in entry.commands.values())

    def unrecorded(
        self, session_id: str, recorded: Mapping[str, BackgroundTask]
    ) -> list[EventBuilder]:
        """Return the records of starts and ends that the session's log does not contain yet.

        Args:
            session_id: The session.
            recorded: The commands according to the log.
        """
        entry = self._entries.get(session_id)
        live = {} if entry is None else entry.commands
        records: list[EventBuilder] = []
        for task_id, task in recorded.items():
            if task.status != "running":
                continue
            command = live.get(task_id)
            if command is None:
                records.append(end_record(task))  # its end is not known
            elif not command.is_running:
                records.append(end_record(command.task))
        for task_id, command in live.items():
            if task_id not in recorded and not command.recorded:
                records.append(start_record(command.task))
                if not command.is_running:
                    records.append(end_record(command.task))
                command.recorded = True
        return records

    async def start_command(
        self, entry: _Entry, spec: ProcessSpec, owner: BackgroundOwner
    ) -> BackgroundTask:
        """Start a background command; for `LeasedBackground.start`."""
        return await self.owner.ask(partial(self._start, entry, spec, owner))

    async def kill_command(self, command: BackgroundCommand) -> None:
        """End a background command, and wait for its end; for `LeasedBackground.kill`."""
        if command.is_running and command.process is not None:
            command.killed = True
            await await_unprotected(command.process.kill)
            await command.ended.wait()

    def statistics(self) -> ResourceStatistics:
        """Return a snapshot."""
        entries = self._all_entries()
        return ResourceStatistics(
            workspaces=sum(entry.opened.is_set() for entry in entries),
            leases=sum(entry.leases for entry in entries),
            commands=self._slots.statistics(),
            background={
                entry.session_id: tuple(one.task for one in entry.commands.values())
                for entry in entries
                if entry.commands
            },
        )

    async def aclose(self) -> None:
        """End all background commands and close all workspaces, after the last run has ended.

        Cancellation: the workspaces are closed when the actor ends.
        """
        entries = self._all_entries()
        self._detached.clear()
        for entry in entries:
            entry.end()
        for entry in entries:
            await entry.closed.wait()

    # Create and close workspaces.

    def _serves(self, entry: _Entry, source: WorkspaceSource) -> bool:
        usable = entry.workspace is not None and not entry.closing
        return usable and same_source(entry.source, source)

    async def _lease(
        self, source: WorkspaceSource, info: RunInfo, cwd: Path, owner: BackgroundOwner
    ) -> WorkspaceLease:
        while (entry := self._entries.get(info.session_id)) is not None:
            if self._serves(entry, source):
                return self.grant(entry, owner)
            if not entry.opened.is_set():
                await entry.opened.wait()
                continue
            entry.end()
            await entry.closed.wait()
        entry = _Entry(info.session_id, source)
        self.owner.start_background(partial(self._keep, entry))
        self._entries[info.session_id] = entry
        try:
            entry.workspace = await self._open(source, info, cwd)
            return self.grant(entry, owner)
        except BaseException:
            entry.end()
            raise
        finally:
            entry.opened.set()

    async def _open(self, source: WorkspaceSource, info: RunInfo, cwd: Path) -> Workspace:
        try:
            if isinstance(source, WorkspaceConfig):
                return await trio.to_thread.run_sync(self._make_workspace, source, cwd)
            if isinstance(source, Workspace):
                return source
            made: object = call_unprotected(source, info)
            if inspect.isawaitable(made):
                waiting = cast("Awaitable[object]", made)
                made = await await_unprotected(lambda: waiting)
        except AgentError:
            raise
        except KeyboardInterrupt as error:  # only user code can be interrupted here
            self.owner.take_interrupt(error)
            raise RuntimeShutdown from error
        except Exception as error:
            raise WorkspaceError(
                f"the workspace could not be created: {type(error).__name__}: {error}",
                reason="failed",
            ) from error
        if not isinstance(made, Workspace):
            raise ConfigError(
                f"the workspace factory must return a Workspace; it returned {made!r:.80}"
            )
        return made

    async def _keep(self, entry: _Entry) -> None:
        """Wait until no run and no background command uses the workspace, then close it."""
        try:
            while not self._is_over(entry):
                with trio.CancelScope() as entry.sleep:
                    if not entry.is_used and entry.opened.is_set():
                        entry.sleep.deadline = entry.idle_since + self._ttl
                    await trio.sleep_forever()
        finally:
            # Also if the actor is torn down, because a container or a process would be left.
            entry.closing = True
            with trio.CancelScope(shield=True):
                await self._close(entry)

    def _is_over(self, entry: _Entry) -> bool:
        if entry.leases:
            return False
        if entry in self._detached:
            return not entry.running
        idle_until = entry.idle_since + self._ttl
        opened = entry.opened.is_set()
        return entry.closing or (opened and not entry.running and trio.current_time() >= idle_until)

    def _note_use(self, entry: _Entry) -> None:
        if not entry.is_used:
            entry.idle_since = trio.current_time()
        entry.wake()

    async def _close(self, entry: _Entry) -> None:
        """End the commands and close the workspace; every step has a time limit."""
        try:
            with trio.move_on_after(KILL_TIMEOUT):
                async with trio.open_nursery() as nursery:
                    for command in entry.commands.values():
                        if command.is_running:
                            nursery.start_soon(self._kill_and_join, command)
            # The caller owns a workspace that was passed as an object.
            if entry.workspace is not None and entry.workspace is not entry.source:
                with trio.move_on_after(CLOSE_TIMEOUT) as limit:
                    await self._attempt("closing a workspace", entry.workspace.aclose)
                if limit.cancelled_caught:
                    _LOG.warning("a workspace did not close within %g s", CLOSE_TIMEOUT)
        finally:
            if self._entries.get(entry.session_id) is entry:
                del self._entries[entry.session_id]
            self._detached.discard(entry)
            entry.closed.set()

    def _all_entries(self) -> tuple[_Entry, ...]:
        return (*self._entries.values(), *self._detached)

    # Run background commands.

    async def _start(
        self, entry: _Entry, spec: ProcessSpec, owner: BackgroundOwner
    ) -> BackgroundTask:
        assert entry.workspace is not None
        if entry.running >= self._per_session:
            raise _limit(f"the session has {entry.running}", self._per_session)
        everywhere = sum(one.running for one in self._all_entries())
        if everywhere >= self._per_runtime:
            raise _limit(f"the runtime has {everywhere}", self._per_runtime)
        task = BackgroundTask(
            task_id=f"bg_{self._ids.new()[-12:]}",
            command=command_text(spec),
            started_at=self._wall_clock(),
            owner=owner,
        )
        command = BackgroundCommand(task)
        entry.starting += 1
        try:
            start = entry.workspace.start
            command.process = await await_unprotected(start, spec, command.take_output)
        except KeyboardInterrupt as error:  # only user code can be interrupted here
            self.owner.take_interrupt(error)
            raise RuntimeShutdown from error
        finally:
            entry.starting -= 1
            self._note_use(entry)
        entry.commands[task.task_id] = command
        try:
            self.owner.start_background(partial(self._watch, entry, command))
        except BaseException:
            with trio.move_on_after(KILL_TIMEOUT, shield=True):
                await self._kill(command)
            raise
        if entry.recorder is not None:
            command.recorded = entry.recorder.note(start_record(command.task))
        return command.task

    async def _watch(self, entry: _Entry, command: BackgroundCommand) -> None:
        end: ProcessEnd | None = None
        process = command.process
        assert process is not None
        try:
            end = await await_unprotected(process.wait)
        except BaseException as error:  # noqa: ASYNC103 - a failure must not stop the actor
            if is_cancellation(error):  # the actor is torn down
                with trio.move_on_after(KILL_TIMEOUT, shield=True):
                    await self._kill(command)
                raise
            self._log_failure("waiting for a background command", error)
        finally:
            self._finish(entry, command, end)

    def _finish(self, entry: _Entry, command: BackgroundCommand, end: ProcessEnd | None) -> None:
        command.finish(end)
        if entry.recorder is not None and command.recorded:
            entry.recorder.note(end_record(command.task))
        ended = [task_id for task_id, one in entry.commands.items() if not one.is_running]
        for task_id in ended[: max(len(ended) - KEPT_ENDED, 0)]:
            del entry.commands[task_id]
        self._note_use(entry)

    async def _kill(self, command: BackgroundCommand) -> None:
        if command.process is not None and command.is_running:
            await self._attempt("ending a background command", command.process.kill)

    async def _kill_and_join(self, command: BackgroundCommand) -> None:
        await self._kill(command)
        await command.ended.wait()

    async def _attempt(self, what: str, step: Callable[[], Awaitable[object]]) -> None:
        try:
            await await_unprotected(step)
        except BaseException as error:  # noqa: ASYNC103 - a failure must not stop the actor
            if is_cancellation(error):
                raise
            self._log_failure(what, error)

    def _log_failure(self, what: str, error: BaseException) -> None:
        rest = self.owner.take_interrupt(error)
        if rest is not None:
            _LOG.warning("%s failed: %s: %s", what, type(rest).__name__, rest, exc_info=rest)


def _limit(found: str, allowed: int) -> WorkspaceError:
    return WorkspaceError(
        f"{found} running background commands, and at most {allowed} are allowed; end one first",
        reason="limit",
    )

# size: one public object; most lines are docstrings of its methods
"""`runtime.sessions`: list, read, change, import and export sessions.

Every change acquires the session as a run does. Each change is a single commit, so it happens
completely or not at all. Records are never removed from a log: a rewind adds a record.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, overload

import trio

from agent_actors.abc import LogRepair, RepairableStore, Workspace
from agent_actors.actors.resources.checkpoints import checkpoint_record
from agent_actors.codec.events import readable_line
from agent_actors.codec.openai_messages import (
    MessageDict,
    messages_from_openai,
    messages_to_openai,
)
from agent_actors.codec.session_lines import completed_line, moved_line, session_of
from agent_actors.context.truncation import head_of
from agent_actors.domain.events import (
    AnyEvent,
    EventBuilder,
    EventScope,
    Notification,
    SessionRewind,
)
from agent_actors.domain.ids import Ids
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import CompactionReport, RunResult
from agent_actors.domain.session import (
    FORKED_AT,
    FORKED_FROM,
    PARENT_CALL,
    PARENT_SESSION,
    Damage,
    JsonScalar,
    SessionInfo,
    SessionOrder,
    SessionPage,
    SessionSnapshot,
    SessionStats,
    trusted_now,
)
from agent_actors.domain.workspace.background import BackgroundTask
from agent_actors.domain.workspace.trees import FileRewind, RestoreReport
from agent_actors.errors import ConfigError, InvalidEventError, SessionExists, SessionUnknown
from agent_actors.options.agent_options import AgentOptions, as_agent
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.options.compaction import Compaction
from agent_actors.runs.model.context_size import ContextSize, context_size
from agent_actors.runtime.open_state import OpenState
from agent_actors.runtime.sessions.files import FileRestorer
from agent_actors.runtime.sessions.reader import RECORDS_PER_TICK, SessionReader
from agent_actors.runtime.sessions.transaction import SessionTransactions
from agent_actors.sessions import SessionState
from agent_actors.sessions.integrity import faults_of
from agent_actors.sessions.records import as_records, recordable, replacing

_SECONDS_PER_DAY: Final = 86_400.0


class SessionAPI:
    """The sessions of a runtime.

    Sessions can always be read. All changes except `annotate` require that no run holds the
    session.

    Args:
        reader: Reads sessions.
        transactions: Changes sessions.
        ids: Makes ids.
        wall_clock: Returns seconds since the epoch.
        state: Tracks whether the runtime is open.
        background: Returns the background commands of a session that are in memory.
        files: Restores files when a session is rewound.
        compact: Runs the compaction of a session, given the agent and instructions.
    """

    def __init__(
        self,
        reader: SessionReader,
        transactions: SessionTransactions,
        ids: Ids,
        wall_clock: Callable[[], float],
        state: OpenState,
        *,
        background: Callable[[str], Sequence[BackgroundTask]],
        files: FileRestorer,
        compact: Callable[[str, AgentOptions[object], str], Awaitable[RunResult]],
    ) -> None:
        self._reader = reader
        self._store = reader.store
        self._transactions = transactions
        self._ids = ids
        self._wall_clock = wall_clock
        self._state = state
        self._background = background
        self._files = files
        self._compact = compact

    # Read sessions.

    async def list(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """List sessions, newest first, one page at a time.

        `where={"parent_session_id": "s"}` lists the sessions of the runs that tools in session `s`
        started.

        Args:
            where: Metadata keys and the values that they must have; a value of None matches a
                missing key. None: list every session.
            order: `created` sorts by the time of the first record, `updated` by the time of the
                last record.
            limit: The maximum number of sessions on the page, from 1 to 1,000.
            after: The `next` value of the previous page, which must have had the same `where` and
                `order`.

        Raises:
            ConfigError: `order`, `limit`, `after` or a value of `where` is not valid.
            SessionStoreError: The store cannot be read.
            RuntimeClosed: The runtime is closed.

        Cancellation: safe.
        """
        page = partial(
            self._store.list_sessions, where=where, order=order, limit=limit, after=after
        )
        return await self._reader.call_store("", page)

    async def info(self, session_id: str) -> SessionInfo | None:
        """Return information about a session without reading its records.

        Returns:
            The times, the number of records and the metadata of the session; None if it has no
            records.

        Raises:
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        return await self._reader.info(session_id)

    async def history(self, session_id: str) -> Messages | None:
        """Return the conversation of a session, whether or not it is in memory; always valid.

        Returns:
            The conversation; None if the session has no records.

        Raises:
            SessionStoreError: The records cannot be read.

        Cancellation: safe.
        """
        state = await self._reader.state(session_id)
        return None if state is None else state.history()

    async def stats(self, session_id: str) -> SessionStats | None:
        """Return the tokens, the requests, the tool calls and the cost of a session.

        Returns:
            The usage that has been recorded so far; None if the session has no records.

        Raises:
            SessionStoreError: The records cannot be read.

        Cancellation: safe.
        """
        state = await self._reader.state(session_id)
        if state is None:
            return None
        spent = state.spent(None)
        return SessionStats(
            session_id, spent.usage, spent.requests, spent.tool_calls, spent.cost, state.last_seq
        )

    async def snapshot(self, session_id: str) -> SessionSnapshot | None:
        """Return the complete state of a session: messages, todos, files, skills, metadata, usage.

        Returns:
            A copy; None if the session has no records.

        Raises:
            SessionStoreError: The records cannot be read.

        Cancellation: safe.
        """
        info = await self.info(session_id)
        state = await self._reader.state(session_id)
        if state is None:
            return None
        return SessionSnapshot(
            session_id=session_id,
            messages=state.history(),
            todos=state.todos,
            files=dict(state.files),
            skills=state.skills,
            metadata={} if info is None else info.metadata,
            usage=state.usage,
            requests=state.requests,
            last_seq=state.last_seq,
            open_calls=tuple(call.id for call in state.open_calls),
            questions=state.questions(session_id),
            external_calls=tuple(state.external.values()),
            unreadable=state.unreadable,
            background=tuple({**state.background, **self._live_tasks(session_id)}.values()),
        )

    def _live_tasks(self, session_id: str) -> dict[str, BackgroundTask]:
        return {task.task_id: task for task in self._background(session_id)}

    async def records(self, session_id: str, *, after_seq: int = 0) -> tuple[AnyEvent, ...]:
        """Return the records of a session, in order.

        Args:
            session_id: The session.
            after_seq: Return the records with a higher `seq` only; 0: all.

        Returns:
            The records. A record that cannot be decoded is an `UnreadableEvent`.

        Raises:
            SessionStoreError: The store cannot be read, or records are lost.

        Cancellation: safe.
        """
        lines = await self._reader.lines(session_id, after_seq)
        return await self._reader.decode(lines, session_id, after_seq)

    async def export(self, session_id: str, *, after_seq: int = 0) -> tuple[str, ...]:
        """Return the stored records of a session as lines of JSON, for `import_records`.

        Fields and record types that this version does not know are included. A record that cannot
        be decoded is exported as a `record.unreadable` line, which keeps its bytes.

        Args:
            session_id: The session.
            after_seq: Return the records with a higher `seq` only; 0: all.

        Raises:
            SessionUnknown: The session has no records.
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        lines = await self._reader.lines(session_id, after_seq)
        if not lines and (after_seq == 0 or await self.info(session_id) is None):
            raise SessionUnknown(session_id)
        exported: list[str] = []
        for seq, line in enumerate(lines, after_seq + 1):
            exported.append(readable_line(line, session_id, seq).decode())
            if not seq % RECORDS_PER_TICK:
                await trio.lowlevel.checkpoint()
        return tuple(exported)

    async def export_messages(self, session_id: str) -> Sequence[MessageDict]:
        """Return the conversation in the OpenAI chat completions format, for `import_messages`.

        Raises:
            SessionUnknown: The session has no records.
            SessionStoreError: The records cannot be read.

        Cancellation: safe.
        """
        messages = await self.history(session_id)
        if messages is None:
            raise SessionUnknown(session_id)
        return messages_to_openai(messages)

    async def check(self, session_id: str) -> tuple[str, ...]:
        """Check the records of a session, and describe every problem that was found.

        Tool calls without a result are not a problem: the next run closes them. `damage` only
        returns the problems of the stored log.

        Returns:
            A description of each problem; empty if the records are valid.

        Raises:
            SessionUnknown: The session has no records.
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        damage = await self.damage(session_id)
        problems = [str(record) for record in damage]
        if any(record.lost for record in damage):
            return tuple(problems)  # the records cannot be read before the log is repaired
        lines = await self._reader.lines(session_id)
        if not lines and not damage:
            raise SessionUnknown(session_id)
        damaged = {record.seq for record in damage}
        for seq, fault in faults_of(session_id, lines):
            if seq not in damaged:
                problems.append(fault)
        return tuple(problems)

    async def damage(self, session_id: str) -> tuple[Damage, ...]:
        """Return the damaged, lost and repeated records in the stored log of a session.

        Returns:
            The damaged records, each with its `seq`, its position in the file and the reason; empty
            if the log is valid, if there is no such session, or if the store does not use the disk.

        Raises:
            SessionStoreError: The store cannot read the log.

        Cancellation: safe.
        """
        store = self._store
        if not isinstance(store, RepairableStore):
            self._state.check_open()
            return ()
        return tuple(await self._reader.call_store(session_id, partial(store.damage, session_id)))

    async def context(self, session_id: str, options: AgentOptions[object]) -> ContextSize:
        """Return the size of the parts of a session's next request, in tokens.

        Args:
            session_id: The session.
            options: The agent of the next run. Built-in tools that it only names are not counted.

        Raises:
            SessionUnknown: The session has no records.
            SessionStoreError: The records cannot be read.

        Cancellation: safe.
        """
        state = await self._reader.state(session_id)
        if state is None:
            raise SessionUnknown(session_id)
        return context_size(state, as_agent(options))

    async def should_compact(self, session_id: str, options: AgentOptions[object]) -> bool:
        """Return whether the next run of a session would make the conversation shorter first.

        Args:
            session_id: The session.
            options: The agent of the next run; without its option `compaction`, the default
                threshold applies.

        Raises:
            See `context`.

        Cancellation: safe.
        """
        size = await self.context(session_id, options)
        limit = size.limit
        if limit is None:
            limit = Compaction().limit(as_agent(options).profile_window)
        return size.total > limit

    # Change sessions.

    async def compact(
        self, session_id: str, options: AgentOptions[object], *, instructions: str = ""
    ) -> CompactionReport | None:
        """Make the conversation of a session shorter now; `rewind` can restore it.

        This is a run without a prompt and without a model call of its own: `options.compaction`, or
        its defaults, determine the messages that stay and the model that writes the summary.

        Args:
            session_id: The session.
            options: The agent.
            instructions: Further instructions for the summary.

        Returns:
            The last step; None if the conversation is too short, or if a hook refused.

        Raises:
            SessionUnknown: The session has no records.
            SessionBusy: A run holds the session.
            SessionSuspended: The session waits for answers or for results of calls.
            ProviderError: The request for the summary failed. The conversation is unchanged.
            ConfigError: The plan of a custom strategy is not valid.
            AgentError: See `Runtime.run`.

        Cancellation: safe; the conversation is either unchanged or shorter.
        """
        if await self.info(session_id) is None:
            raise SessionUnknown(session_id)
        result = await self._compact(session_id, options, instructions)
        return result.compactions[-1] if result.compactions else None

    async def append(self, session_id: str, messages: Messages) -> Messages:
        """Append messages to the conversation of a session; create the session if necessary.

        Args:
            session_id: The session.
            messages: The messages; system messages are not allowed.

        Returns:
            The conversation after the change.

        Raises:
            MessageError: A message is not valid in a session. Nothing is recorded.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: The store failed. The messages may have been recorded.

        Cancellation: safe; either all records are written or none.
        """
        state = await self._commit(session_id, lambda _: [*as_records(messages)])
        return state.history()

    async def replace(self, session_id: str, messages: Messages) -> Messages:
        """Replace the conversation of a session; `rewind` can restore the previous one.

        Args:
            session_id: The session.
            messages: The new conversation; system messages are not allowed.

        Returns:
            The conversation after the change.

        Raises:
            See `append`.

        Cancellation: see `append`.
        """
        state = await self._commit(session_id, lambda state: replacing(state, messages))
        return state.history()

    async def reset(self, session_id: str) -> None:
        """Rewind a session to its beginning; the tokens already used still count.

        Raises:
            SessionUnknown: The session has no records.
            See `append`.

        Cancellation: see `append`.
        """
        await self.rewind(session_id, 0)

    @overload
    async def rewind(self, session_id: str, to_seq: int) -> Messages: ...
    @overload
    async def rewind(
        self,
        session_id: str,
        to_seq: int,
        *,
        files: Literal[True],
        dry_run: bool = False,
        workspace: Workspace | Mapping[str, object] | None = None,
        checkpoints: Checkpoints | str | None = None,
    ) -> FileRewind: ...
    async def rewind(
        self,
        session_id: str,
        to_seq: int,
        *,
        files: bool = False,
        dry_run: bool = False,
        workspace: Workspace | Mapping[str, object] | None = None,
        checkpoints: Checkpoints | str | None = None,
    ) -> Messages | FileRewind:
        """Restore the conversation as it was right after a record, and the files if requested.

        A rewind to a record from before an earlier rewind restores the messages that the earlier
        rewind removed.

        With `files=True`, the files that the agent changed since the record get their earlier
        state, before the rewind is recorded. Files that only others changed, and files that others
        changed too, are left as they are. For a record within a run, the files get the state from
        before the run. The runs must have the option `checkpoints`.

        Args:
            session_id: The session.
            to_seq: The `seq` of the record; 0: the beginning.
            files: True to restore the files of the workspace too.
            dry_run: With `files`, True to change nothing and return what would change.
            workspace: With `files`, the workspace or its table; None: the workspace that the
                session's last run in this runtime used.
            checkpoints: With `files`, the checkpoints or their directory; None: those of the last
                run, or the default directory.

        Returns:
            The conversation after the change; with `files`, a `FileRewind`. A tool call whose
            result was recorded later is open again; the next run closes it.

        Raises:
            SessionUnknown: The session has no records.
            ConfigError: The record does not exist, no checkpoint is suitable, or the agent has no
                workspace.
            WorkspaceError: A checkpoint is missing, or a file could not be restored. The
                conversation is unchanged; the call can be repeated.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: The store failed. The rewind may have been recorded.

        Cancellation: see `append`. Each file is either unchanged or restored; the call can be
        repeated.
        """
        if files:
            return await self._rewind_files(session_id, to_seq, dry_run, workspace, checkpoints)
        if dry_run or workspace is not None or checkpoints is not None:
            raise ConfigError("rewind: dry_run, workspace and checkpoints require files=True")

        def make(state: SessionState) -> Sequence[EventBuilder]:
            return [_rewind(session_id, state, to_seq)]

        return (await self._commit(session_id, make)).history()

    async def _rewind_files(
        self,
        session_id: str,
        to_seq: int,
        dry_run: bool,
        workspace: Workspace | Mapping[str, object] | None,
        checkpoints: Checkpoints | str | None,
    ) -> FileRewind:
        report: RestoreReport | None = None

        async def work(state: SessionState) -> Sequence[EventBuilder]:
            nonlocal report
            rewound = _rewind(session_id, state, to_seq)
            restored = await self._files.restore(
                session_id,
                await self.records(session_id),
                to_seq,
                workspace=workspace,
                checkpoints=checkpoints,
                dry_run=dry_run,
            )
            report = restored.report
            if dry_run:
                return []
            before = checkpoint_record("before", report.before, restored.root)
            return [before, rewound, checkpoint_record("after", report.after, restored.root)]

        self._state.check_open()
        run_id = self._ids.new()
        state = await self._transactions.commit_after(EventScope(session_id, run_id, run_id), work)
        assert report is not None
        return FileRewind(
            messages=state.history(),
            dry_run=dry_run,
            changes=report.changes,
            conflicts=report.conflicts,
            not_covered=report.not_covered,
        )

    async def record(self, session_id: str, *drafts: EventBuilder) -> None:
        """Record todos, files, skills or notifications; create the session if necessary.

        Args:
            session_id: The session.
            drafts: Functions that make events from a header, such as
                `partial(TodosChanged, todos=(...))`. The events are `TodosChanged`,
                `FileChanged`, `SkillActivated` or `Notification`.

        Raises:
            InvalidEventError: An event could not be read back, since a field has the wrong type or
                a value that JSON cannot represent. The message names the field, and nothing is
                written.
            ConfigError: An event has another type, which only runs may record.
            SessionBusy: A run holds the session.
            SessionStoreError, SessionFenced: The store failed. The events may have been recorded.

        Cancellation: see `append`.
        """
        checked = [recordable(draft) for draft in drafts]
        await self._commit(session_id, lambda _: checked)

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Set metadata keys of a session, even while a run holds the session.

        Args:
            session_id: The session.
            metadata: Keys and values; a value of None removes its key.

        Returns:
            True if the session has records; False if it has none, so nothing was changed.

        Raises:
            SessionStoreError: A value cannot be represented in JSON, or the store failed.

        Cancellation: safe; either all keys are set or none.
        """
        return await self._reader.call_store(
            session_id, partial(self._store.annotate, session_id, metadata)
        )

    async def fork(
        self, session_id: str, at_seq: int | None = None, *, new_id: str | None = None
    ) -> str:
        """Create a session from the records of another one, up to a record.

        The records are copied with the new session id, including data that this version does not
        know. The tokens used up to that record also count for the fork. An extra record at the end
        names the original session.

        Args:
            session_id: The session to fork, which does not change.
            at_seq: The `seq` of the last record to copy, from 1; None: copy all.
            new_id: The id of the fork; None: a new id.

        Returns:
            The id of the fork. Its metadata is a copy of the original metadata, with `forked_from`
            and `forked_at_seq` added.

        Raises:
            SessionUnknown: The session has no records.
            ConfigError: There is no such record.
            SessionExists: A session with the new id already exists.
            SessionBusy: A run holds one of the two sessions.
            SessionStoreError: The store failed. The fork may have been created.

        Cancellation: safe; the fork is created completely or not at all.
        """
        new_id = new_id or self._ids.new()
        if new_id == session_id:
            raise SessionExists(new_id)
        self._state.check_open()
        with self._transactions.hold(session_id):
            lines = await self._reader.lines(session_id)
            info = await self.info(session_id)
            if info is None or not lines:
                raise SessionUnknown(session_id)
            at_seq = len(lines) if at_seq is None else at_seq
            _check_seq(session_id, "at_seq", 1, at_seq, len(lines))
            metadata = dict(info.metadata)
            for key in (PARENT_SESSION, PARENT_CALL):
                metadata.pop(key, None)
            origin: JsonObject = {FORKED_FROM: session_id, FORKED_AT: at_seq}
            copied = [
                moved_line(readable_line(line, session_id, seq), new_id)
                for seq, line in enumerate(lines[:at_seq], 1)
            ]
            note = "forked from another session"
            await self._create(new_id, copied, note, {**metadata, **origin})
        return new_id

    async def delete(self, session_id: str) -> bool:
        """Delete a session from memory and from the store, permanently.

        Returns:
            True if the session had records.

        Raises:
            SessionBusy: A run holds the session, here or in another process.
            SessionStoreError: The store failed. The session may have been deleted.

        Cancellation: safe; the session is either deleted or unchanged.
        """
        self._state.check_open()
        with self._transactions.hold(session_id) as lease:
            existed = await self.info(session_id) is not None
            await self._transactions.delete(lease)
        return existed

    async def prune(self, days: float) -> tuple[str, ...]:
        """Delete the sessions whose last record is older than the given number of days.

        Sessions that are in use are kept. The age is measured from the current time, or from one
        day after the newest record in the store if that is earlier, because the clock may be wrong.
        A disk store deletes old sessions by itself if `cleanup_period_days` is set.

        Returns:
            The ids of the deleted sessions.

        Raises:
            ConfigError: `days` is not above 0.
            SessionStoreError: The store failed. Some sessions may have been deleted.

        Cancellation: safe; some sessions may have been deleted.
        """
        if not days > 0:
            raise ConfigError(f"prune: days must be above 0; got {days}")
        newest = await self.list(order="updated", limit=1)
        now = trusted_now(self._wall_clock(), newest.sessions)
        before = now - days * _SECONDS_PER_DAY
        deleted = tuple(await self._reader.call_store("", partial(self._store.prune, before)))
        for session_id in deleted:
            self._transactions.forget(session_id)
        return deleted

    async def repair(self, session_id: str) -> LogRepair:
        """Make the stored log of a session readable again; `damage` lists its problems.

        Every readable record keeps its position. A damaged record is replaced by an
        `UnreadableEvent` that keeps its bytes. A lost record is replaced by one without bytes. A
        repeated line is removed. The previous log is kept in a file.

        Returns:
            The problems that were found, and the file with the previous log. If there were no
            problems, nothing was changed.

        Raises:
            SessionUnknown: The session has no records.
            ConfigError: The store does not support repairs.
            SessionBusy: A run holds the session, here or in another process.
            SessionStoreError: The log could not be read or written. It may have been repaired.

        Cancellation: safe; the log is either repaired or unchanged.
        """
        store = self._store
        self._state.check_open()
        if not isinstance(store, RepairableStore):
            raise ConfigError(f"a {type(store).__name__} has no logs that can be repaired")
        with self._transactions.hold(session_id):
            repaired = await self._reader.call_store(session_id, partial(store.repair, session_id))
            self._transactions.read_anew(session_id)
        if not repaired.damage and await self.info(session_id) is None:
            raise SessionUnknown(session_id)
        return repaired

    # Import sessions.

    async def import_records(
        self, lines: Iterable[str | bytes], *, session_id: str | None = None
    ) -> str:
        """Create a session from exported records, including data that this version does not know.

        Args:
            lines: One record per line, from the first record of the session; blank lines are
                skipped. An extra record at the end marks the session as imported. Missing header
                fields are filled in, so `{"type": "user.message", "text": "hi"}` is a complete
                record.
            session_id: The id of the new session; None: the id in the records, or a new id if the
                records contain none.

        Returns:
            The id of the new session.

        Raises:
            InvalidEventError: The lines are not the records of a session. The message names the
                line and the problem.
            SessionExists: A session with this id already exists.
            SessionBusy: A run holds the session.
            SessionStoreError: The store failed. The session may have been created.

        Cancellation: safe; the session is created completely or not at all.
        """
        encoded = [line.encode() if isinstance(line, str) else line for line in lines]
        records = [line.strip() for line in encoded if line.strip()]
        if not records:
            raise InvalidEventError("expected the records of a session, got none")
        new_id, run_id = self._ids.new(), self._ids.new()
        records = [
            completed_line(line, self._header(session_id or new_id, run_id, seq))
            for seq, line in enumerate(records, 1)
        ]
        if session_id is None:
            session_id = session_of(records[0])
        else:
            records = [moved_line(line, session_id) for line in records]
        for _, fault in faults_of(session_id, records):
            raise InvalidEventError(f"these are not the records of a session: {fault}")
        await self._create(session_id, records, "imported", {})
        return session_id

    async def import_messages(
        self, messages: Iterable[Mapping[str, object]], *, session_id: str | None = None
    ) -> str:
        """Create a session from messages in the OpenAI chat completions format.

        Args:
            messages: The messages. System messages at the beginning are skipped, since sessions do
                not store them: each request sends the system prompt from the agent's options.
            session_id: The id of the new session; None: a new id.

        Returns:
            The id of the new session.

        Raises:
            MessageError: A message is not valid. The error names the message and the problem.
            SessionExists: A session with this id already exists.
            SessionBusy: A run holds the session.
            SessionStoreError: The store failed. The session may have been created.

        Cancellation: safe; the session is created completely or not at all.
        """
        decoded = messages_from_openai(messages)
        records = [*as_records(decoded[head_of(decoded) :])]
        session_id = session_id or self._ids.new()

        def make(state: SessionState) -> Sequence[EventBuilder]:
            if state.last_seq:
                raise SessionExists(session_id)
            return [*records, partial(Notification, text="imported")]

        await self._commit(session_id, make)
        return session_id

    def _header(self, session_id: str, run_id: str, seq: int) -> JsonObject:
        return {
            "id": self._ids.new(),
            "ts": self._wall_clock(),
            "session_id": session_id,
            "run_id": run_id,
            "request_id": run_id,
            "seq": seq,
        }

    async def _commit(
        self, session_id: str, make: Callable[[SessionState], Sequence[EventBuilder]]
    ) -> SessionState:
        self._state.check_open()
        run_id = self._ids.new()
        return await self._transactions.commit(EventScope(session_id, run_id, run_id), make)

    async def _create(
        self, session_id: str, lines: Sequence[bytes], note: str, metadata: JsonObject
    ) -> None:
        records = await self._reader.decode(lines, session_id)
        self._state.check_open()
        await self._transactions.create(session_id, records, lines, note=note, metadata=metadata)


def _rewind(session_id: str, state: SessionState, to_seq: int) -> EventBuilder:
    if not state.last_seq:
        raise SessionUnknown(session_id)
    _check_seq(session_id, "to_seq", 0, to_seq, state.last_seq)
    return partial(SessionRewind, to_seq=to_seq)


def _check_seq(session_id: str, name: str, lowest: int, seq: int, last_seq: int) -> None:
    if not lowest <= seq <= last_seq:
        raise ConfigError(
            f"{name} must be from {lowest} to {last_seq}, the last record of session "
            f"{session_id!r}; got {seq}"
        )

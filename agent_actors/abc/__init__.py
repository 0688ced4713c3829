"""The ports of the runtime, as Protocols.

The packages `providers`, `stores` and `transport` contain adapters that implement the ports.
`runtime/wiring.py` connects them. `tests/contracts/` contains one test suite per port, which runs
against every implementation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from agent_actors.abc.instrumentation import Instrumentation as Instrumentation
from agent_actors.abc.instrumentation import Observation as Observation
from agent_actors.abc.tool_server import RemoteBlock as RemoteBlock
from agent_actors.abc.tool_server import RemoteResult as RemoteResult
from agent_actors.abc.tool_server import RemoteTool as RemoteTool
from agent_actors.abc.tool_server import ToolServer as ToolServer
from agent_actors.abc.workspace import BackgroundTasks as BackgroundTasks
from agent_actors.abc.workspace import Checkpointer as Checkpointer
from agent_actors.abc.workspace import TreeWorkspace as TreeWorkspace
from agent_actors.abc.workspace import Workspace as Workspace
from agent_actors.abc.workspace import WorkspaceProcess as WorkspaceProcess
from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonValue
from agent_actors.domain.model import ModelCompleted, ModelDelta, ModelRequest
from agent_actors.domain.session import Damage, JsonScalar, SessionInfo, SessionOrder, SessionPage
from agent_actors.domain.usage import Usage
from agent_actors.errors import SessionError


class ModelSink(Protocol):
    """Receives the deltas of a streamed response.

    The provider calls `feed` synchronously in the task that reads the response, once per network
    read. It must check `full` before each read, and await `wait_room` while `full` is set.
    """

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to accept more."""
        ...

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Receive deltas. An exception ends the stream and the run.

        Args:
            deltas: The new deltas, in order.

        Returns:
            True if `full` is certainly not set, so that the caller need not check it. If False, the
            caller must check `full`.
        """
        ...

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        ...


@runtime_checkable
class DeadlineSink(Protocol):
    """The optional methods of a `ModelSink` that enforces deadlines on the stream."""

    def mark_complete(self, stop: Callable[[], object] | None) -> None:
        """Stop treating a late stream as a failure, because everything that matters has arrived.

        Args:
            stop: Called instead of cancelling the stream if the stream is late. The provider then
                ends the stream at once and returns what it has received. None means that more
                content must arrive after all, so that a late stream is a failure again.
        """
        ...


class SelectiveSink(Protocol):
    """The optional attributes of a `ModelSink` that does not show every delta to a reader.

    A provider may join the deltas of one read if no reader sees them one by one. The values are
    read once, at the beginning of a response.
    """

    @property
    def sees_text(self) -> bool:
        """False if text and thinking may be joined."""
        ...

    @property
    def sees_arguments(self) -> bool:
        """False if the arguments of a call may be joined."""
        ...


@runtime_checkable
class BudgetSink(Protocol):
    """The optional methods of a `ModelSink` that enforces the run's request budget."""

    def take_request(self, used: Usage) -> bool:
        """Reserve the budget for another request for the same response.

        Args:
            used: The usage of the earlier requests, each of which produced a part of this response.

        Returns:
            False if the budget does not allow another request. The response then ends without the
            rest.
        """
        ...


@runtime_checkable
class ModelProvider(Protocol):
    """A model that is reached through a wire protocol. It can also be used without a runtime."""

    @property
    def name(self) -> str:
        """The name used in errors and statistics, usually the endpoint's URL."""
        ...

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Send a request, feed deltas to `sink` as they arrive, and return the complete response.

        Raises:
            ProviderError: The request to the model failed.

        Cancellation: closes the connection; `sink` keeps the deltas that it has received.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Send a request and return the complete response.

        Raises:
            ProviderError: The request to the model failed.

        Cancellation: closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources; idempotent."""
        ...


@attrs.frozen
class HttpRequest:
    """An HTTP request whose body is bytes.

    Attributes:
        url: The complete URL.
        headers: The headers; names in any case.
        body: The body.
        method: The method, in upper case.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


class ByteSink(Protocol):
    """Receives an HTTP response in the task that reads it."""

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to accept more."""
        ...

    @property
    def done(self) -> bool:
        """True if no more data is needed. The rest is drained briefly or discarded."""
        ...

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Receive the response's status and headers; header names are in lower case."""
        ...

    def feed(self, data: bytes) -> bool | None:
        """Receive the data of one network read.

        Returns:
            True only if neither `full` nor `done` is set, so that the caller need not check
            them. If False, the caller must check both.
        """
        ...

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        ...


@runtime_checkable
class RequestSink(Protocol):
    """The optional methods of a `ByteSink` that needs to know the requests as they were sent."""

    def note_request(self, url: str, headers: Mapping[str, str]) -> None:
        """Receive the URL and the headers of a request, including those that a client added.

        A `ByteExchange` that adds headers, for example of an authentication scheme, calls this
        method before `start`, and before it raises an error. It may also pass headers of responses
        that contain credentials, such as `set-cookie`.
        """
        ...


@attrs.frozen
class ConnectionStatistics:
    """Statistics of the connections of a `ByteExchange`.

    Attributes:
        open: Open connections: in use, draining or idle.
        idle: Idle connections, which can be reused.
        waiting: Exchanges that are waiting for admission.
        opened: Connections opened so far.
        reused: How often an idle connection was reused.
        closed_by_peer: Connections that the peer closed or reset, idle or not.
        closed_by_answer: Connections closed after a response that did not allow another exchange.
        closed_by_fault: Connections closed because the data was not valid HTTP or the sink failed.
        closed_by_cancel: Connections closed because the caller was cancelled or left the exchange.
        closed_by_expiry: Connections closed because they were idle for too long.
        closed_by_shutdown: Connections closed by `aclose`.
    """

    open: int
    idle: int
    waiting: int
    opened: int
    reused: int
    closed_by_peer: int
    closed_by_answer: int
    closed_by_fault: int
    closed_by_cancel: int
    closed_by_expiry: int
    closed_by_shutdown: int


@attrs.frozen
class ExchangeStatistics:
    """Statistics of a `ByteExchange`.

    Attributes:
        live: Exchanges in progress.
        begun: Exchanges started so far.
        connections: Statistics of the connections; None if they are not available.
    """

    live: int
    begun: int
    connections: ConnectionStatistics | None = None


class ByteExchange(Protocol):
    """An HTTP client that sends a request and feeds the response to a sink."""

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request and feed the response to `sink` until it ends or `sink.done` is true.

        Raises:
            ProviderConnectError: The connection could not be opened, or it broke.
            ProviderDeadlineError: No connection was opened within the connect deadline.
            ProviderProtocolError: The received data is not valid HTTP.

        Cancellation: closes the connection at once.
        """
        ...

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the statistics."""
        ...

    async def aclose(self) -> None:
        """Close every connection; idempotent."""
        ...


@runtime_checkable
class ExchangeOwner(Protocol):
    """A provider that reports statistics about its exchanges and connections."""

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the statistics."""
        ...


@attrs.frozen
class LogAppend:
    """Records to append atomically to the log of one session.

    Attributes:
        session_id: The session.
        expected_seq: The `seq` of the log's last record; 0 for an empty log.
        fence: The writer's fencing number. While the store is open, it rejects numbers lower than
            that of an earlier append.
        events: The records, at least one. Their `seq` numbers continue from `expected_seq`.
        metadata: Keys of the session's metadata to set with this commit. A key whose value is None
            is removed. Other keys are unchanged.
        lines: The JSON of each event, to be stored unchanged, including fields that this version
            does not know. Imports and forks pass them. If None, the store serializes the events.
    """

    session_id: str
    expected_seq: int
    fence: int
    events: tuple[AnyEvent, ...]
    metadata: Mapping[str, JsonValue] | None = None
    lines: tuple[bytes, ...] | None = None


# The outcome of a `LogAppend`: None if it was committed, otherwise the reason why not.
AppendOutcome: TypeAlias = SessionError | None


class SessionStore(Protocol):
    """Stores the logs and the metadata of sessions.

    Only the SessionLog actor calls `load` and `append`, one append at a time. Any task may call the
    other methods. Several store objects may have the same stored data open, for example in
    different processes. Only one of these openings can use a session at a time: from its first
    `load` or `append` until `released`, the other openings get `SessionBusy`.

    Every method except `open`, `evicted`, `released` and `aclose` raises `SessionStoreError` if a
    session id is invalid (see `domain.session.find_session_id_error`) or if the store is not open.

    Cancellation: a cancelled call stops waiting. An operation that has begun may still be carried
    out, completely and before any later call.
    """

    async def open(self) -> int:
        """Open the store and return its epoch, a number that increases with each opening.

        Raises:
            SessionStoreError: The store cannot be used.
        """
        ...

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """Return the session's records with `seq` above `after_seq`, in order.

        For an unknown session, the result is empty.

        Raises:
            SessionStoreError: The records cannot be read.
            SessionBusy: Another opening of the store is using the session.
        """
        ...

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit appends to several sessions together; each one succeeds or fails independently.

        Returns:
            One outcome per append, in order: `SessionFenced` for a stale `expected_seq` or `fence`,
                `SessionBusy` for a session that another opening is using, `SessionStoreError` if
                the records could not be written.
        """
        ...

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """Return the same records as `load`, each as its stored line of JSON.

        The lines keep fields that this version does not know; `LogAppend.lines` accepts such lines.
        A session can be exported even while another opening is using it.

        Raises:
            SessionStoreError: The records cannot be read.
        """
        ...

    async def info(self, session_id: str) -> SessionInfo | None:
        """Return a summary of the session; None if it has no records.

        Raises:
            SessionStoreError: The session cannot be read.
        """
        ...

    async def list_sessions(
        self,
        *,
        where: Mapping[str, JsonScalar] | None = None,
        order: SessionOrder = "created",
        limit: int = 50,
        after: str | None = None,
    ) -> SessionPage:
        """Return a page of the sessions, newest first.

        Args:
            where: Metadata keys and the values that a session must have for all of them. The value
                None requires that the key is absent. If `where` is None, every session is listed.
            order: `created` sorts by the time of the first record; the pages then neither repeat
                nor miss a session. `updated` sorts by the time of the last record; a session that
                is written to between two pages then moves to the front.
            limit: The maximum number of sessions on a page, from 1 to 1,000.
            after: The `next` of the previous page, which must have the same `where` and `order`.

        Raises:
            ConfigError: `where`, `order`, `limit` or `after` is invalid.
            SessionStoreError: The sessions cannot be read.
        """
        ...

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Set keys of the session's metadata, whether or not the session is in use.

        Args:
            session_id: The session.
            metadata: The keys to set. A key whose value is None is removed.

        Returns:
            False if the session has no records; in this case nothing was set.

        Raises:
            SessionStoreError: The metadata could not be written.
        """
        ...

    def evicted(self, session_id: str) -> None:
        """Handle the session's eviction from the runtime. A volatile store deletes the session."""
        ...

    def released(self, session_id: str) -> None:
        """Handle the end of the session's run. Other openings may now use the session."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete the session; do nothing if it is unknown.

        Raises:
            SessionStoreError: The session could not be deleted.
            SessionBusy: Another opening of the store is using the session.
        """
        ...

    async def prune(self, before: float) -> Sequence[str]:
        """Delete the sessions that are not in use and whose last record is older than `before`.

        Args:
            before: Seconds since the epoch.

        Returns:
            The ids of the deleted sessions.

        Raises:
            SessionStoreError: The sessions could not be deleted.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources; idempotent."""
        ...


class InstantStore(Protocol):
    """The optional methods of a `SessionStore` that never blocks.

    The runtime calls these methods directly, without a task in between. If a subclass overrides
    only `load` or `append`, the runtime calls the override instead, because it may do more.
    """

    def load_nowait(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """Load records as `SessionStore.load` does."""
        ...

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        """Commit one append as `SessionStore.append` does."""
        ...


@runtime_checkable
class CompactingStore(Protocol):
    """The optional method of a `SessionStore` that keeps sessions in memory."""

    def compact(self, session_id: str) -> None:
        """Reduce the memory of a session that is not in use; must neither block nor fail."""
        ...


@attrs.frozen
class LogRepair:
    """The repairs that a store has made to a session's log.

    Attributes:
        session_id: The session.
        damage: The damage that was found. If empty, the log was valid and is unchanged.
        backup: The file that contains the log as it was before the repair; None if nothing was
            changed.
    """

    session_id: str
    damage: tuple[Damage, ...]
    backup: str | None = None


@runtime_checkable
class RepairableStore(Protocol):
    """The optional methods of a `SessionStore` whose stored data can be damaged."""

    async def damage(self, session_id: str) -> Sequence[Damage]:
        """Return the damage in a session's stored log without changing it, in use or not.

        Raises:
            SessionStoreError: The log cannot be read at all.
        """
        ...

    async def repair(self, session_id: str) -> LogRepair:
        """Make a session's log readable again, atomically.

        Every readable record keeps its place. Each damaged record is replaced by a record that
        keeps the damaged bytes, and each lost record by a record without bytes.

        Raises:
            SessionStoreError: The log cannot be read or written; it is unchanged.
            SessionBusy: Another opening of the store is using the session.
        """
        ...


@runtime_checkable
class ResultStore(Protocol):
    """The optional methods of a `SessionStore` that keeps the full texts of truncated tool results.

    The texts are not part of the log. They are deleted with their session. The store may drop a
    session's oldest texts to limit their size. If a store does not have these methods, the texts
    are kept in memory.
    """

    async def keep_result(self, session_id: str, tool_use_id: str, chunks: Sequence[bytes]) -> None:
        """Keep the text of a result, given as chunks of UTF-8.

        Raises:
            Exception: The text could not be kept. The session is not affected.
        """
        ...

    async def read_result(
        self, session_id: str, tool_use_id: str, offset: int, size: int
    ) -> bytes | None:
        """Return up to `size` bytes of a text from a byte offset; None if the text is not kept."""
        ...


@runtime_checkable
class SharedStore(Protocol):
    """The optional methods of a `SessionStore` that may be opened several times at once.

    Another opening may have written to a session that is in memory, or may have deleted it. Each
    run that acquires a session therefore reads the end of the session's log again, which also
    reserves the session for this opening. The read is skipped if the store has kept the session
    reserved since the previous run.
    """

    @property
    def shared(self) -> bool:
        """True if other store objects can open the same data."""
        ...

    def take_nowait(self, session_id: str) -> bool:
        """Reserve the session again, unless another opening may have used it since its release.

        Returns:
            True if the session is reserved and its log is unchanged. If False, call `load`, which
            reads the current log.
        """
        ...

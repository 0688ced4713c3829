"""The ports of the runtime, as Protocols.

The packages `providers`, `stores` and `transport` hold adapters that implement the ports.
`runtime/wiring.py` connects them. `tests/contracts/` holds one test suite per port, which runs
against every implementation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

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
        """True while the reader is too far behind to take more."""
        ...

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Receive deltas. An exception ends the stream and the run.

        Args:
            deltas: The new deltas, in order.

        Returns:
            True if `full` is certainly not set, so that the caller need not check it. Otherwise the
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

    def enough(self, stop: Callable[[], object] | None) -> None:
        """Stop treating a late stream as a failure: everything that matters has arrived.

        Args:
            stop: Called instead of cancelling the stream when the stream is late. The provider then
                ends the stream at once and returns what it has received. None: more content must
                arrive after all, and a late stream is a failure again.
        """
        ...


@runtime_checkable
class BudgetSink(Protocol):
    """The optional methods of a `ModelSink` that enforces the run's request budget."""

    def take_request(self, used: Usage) -> bool:
        """Reserve another request for the same response.

        Args:
            used: The usage of the earlier requests, whose responses are parts of this response.

        Returns:
            False if the budget does not permit another request. The response then ends as it is.
        """
        ...


@runtime_checkable
class ModelProvider(Protocol):
    """A model behind a wire protocol. It can also be used without a runtime."""

    @property
    def name(self) -> str:
        """The name in errors and statistics, usually the endpoint's URL."""
        ...

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Send a request, feed deltas to `sink` as they arrive, and return the complete response.

        Raises:
            ProviderError: The request failed on the side of the model.

        Cancellation: closes the connection; `sink` keeps the deltas that it received.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Send a request and return the complete response.

        Raises:
            ProviderError: The request failed on the side of the model.

        Cancellation: closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Release all resources; idempotent."""
        ...


@attrs.frozen
class HttpRequest:
    """An HTTP request with a body of bytes.

    Attributes:
        url: The complete URL.
        headers: The headers; names in any case.
        body: The content.
        method: The method, in capitals.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


class ByteSink(Protocol):
    """Receives an HTTP response in the task that reads it."""

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        ...

    @property
    def done(self) -> bool:
        """True if no more data is wanted. The rest is drained briefly or discarded."""
        ...

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Receive the response's status and headers; header names are in lower case."""
        ...

    def feed(self, data: bytes) -> bool | None:
        """Receive the data of one network read.

        Returns:
            True if certainly neither `full` nor `done` is set, so that the caller need not check
            them. Otherwise the caller must check both.
        """
        ...

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        ...


@attrs.frozen
class ConnectionStatistics:
    """Statistics of the connections of a `ByteExchange`.

    Attributes:
        open: Open connections: in use, draining or idle.
        idle: Idle connections, which can be reused.
        waiting: Exchanges that wait for admission.
        opened: Connections opened so far.
        reused: How often an idle connection was reused.
        closed_by_peer: Connections that the peer closed or reset, idle or not.
        closed_by_answer: Connections closed after a response that permitted no further exchange.
        closed_by_fault: Connections closed because the data was not HTTP or the sink failed.
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
        begun: Exchanges begun so far.
        connections: Statistics of the connections; None if they are not available.
    """

    live: int
    begun: int
    connections: ConnectionStatistics | None = None


class ByteExchange(Protocol):
    """An HTTP client that sends one request and feeds its response to a sink."""

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request and feed the response to `sink` until it ends or `sink.done` is true.

        Raises:
            ProviderConnectError: The connection could not be opened, or it broke.
            ProviderDeadlineError: No connection was opened within the connect deadline.
            ProviderProtocolError: The received data is not HTTP.

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
    """A provider that reports statistics of its exchanges and connections."""

    def statistics(self) -> ExchangeStatistics:
        """Return a snapshot of the statistics."""
        ...


@attrs.frozen
class LogAppend:
    """Records to append atomically to the log of one session.

    Attributes:
        session_id: The session.
        expected_seq: The `seq` of the log's last record; 0 for an empty log.
        fence: The writer's fencing number. The store refuses a number lower than that of an earlier
            append during the same opening.
        events: The records, at least one. Their `seq` continue from `expected_seq`.
        metadata: Keys of the session's metadata to set with this commit. A key whose value is None
            is removed. Other keys are unchanged.
        lines: The JSON of each event, to be stored unchanged, including fields that this version
            does not know. Imports and forks pass these. None: the store serializes the events.
    """

    session_id: str
    expected_seq: int
    fence: int
    events: tuple[AnyEvent, ...]
    metadata: Mapping[str, JsonValue] | None = None
    lines: tuple[bytes, ...] | None = None


# The outcome of one LogAppend: None if it was committed, otherwise the reason why not.
AppendOutcome: TypeAlias = SessionError | None


class SessionStore(Protocol):
    """Stores the logs and the metadata of sessions.

    Only the SessionLog actor calls `load` and `append`, one append at a time. Any task may call the
    other methods. A store that several openings can share gives a session to one opening at a time:
    from its first `load` or `append` until `released`, other openings get `SessionBusy`.

    Every method except `open`, `evicted`, `released` and `aclose` raises `SessionStoreError` for an
    invalid session id (`domain.session.find_session_id_error`) and for a store that is not open.

    Cancellation: a cancelled call stops waiting. An operation that has begun may still be carried
    out, completely and before any later call.
    """

    async def open(self) -> int:
        """Open the store and return its epoch, a number that increases with every opening.

        Raises:
            SessionStoreError: The store cannot be used.
        """
        ...

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """Return the session's records with `seq` above `after_seq`, in order.

        An unknown session has no records.

        Raises:
            SessionStoreError: The records cannot be read.
            SessionBusy: Another opening of the store uses the session.
        """
        ...

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit appends to several sessions together; each append succeeds or fails on its own.

        Returns:
            One outcome per append, in order: `SessionFenced` for a stale `expected_seq` or `fence`,
            `SessionBusy` for a session that another opening uses, `SessionStoreError` if the
            records could not be written.
        """
        ...

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """Return the same records as `load`, each as the line of JSON that was written.

        The lines keep fields that this version does not know; `LogAppend.lines` accepts them. A
        session that another opening uses can be exported too.

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
        """Return a page of the sessions, the newest first.

        Args:
            where: Metadata keys and the values that a session must have, all of them. The value
                None requires that the key is absent. None: every session.
            order: `created` sorts by the time of the first record; its pages neither repeat nor
                miss a session. `updated` sorts by the time of the last record; a session that is
                written to between two pages moves to the front.
            limit: The maximum number of sessions on a page, from 1 to 1,000.
            after: The `next` of the previous page, for the same `where` and `order`.

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
            False if the session has no records; nothing was set then.

        Raises:
            SessionStoreError: The metadata could not be written.
        """
        ...

    def evicted(self, session_id: str) -> None:
        """Record that the session left the runtime's memory. A volatile store deletes it too."""
        ...

    def released(self, session_id: str) -> None:
        """Record that the run on the session ended. Another opening of the store may use it now."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete the session; do nothing if it is unknown.

        Raises:
            SessionStoreError: The session could not be deleted.
            SessionBusy: Another opening of the store uses the session.
        """
        ...

    async def prune(self, before: float) -> Sequence[str]:
        """Delete the sessions whose last record is older than `before`, except those in use.

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
    """The optional methods of a `SessionStore` that never waits.

    The runtime calls these methods directly, without a task in between. If a subclass overrides
    only `load` or `append`, the runtime calls those overrides instead, because they may do more.
    """

    def load_nowait(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """Load records as `SessionStore.load` does."""
        ...

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        """Commit one append as `SessionStore.append` does."""
        ...


@attrs.frozen
class LogRepair:
    """The repairs that a store made to the log of one session.

    Attributes:
        session_id: The session.
        damage: The damage that was found. If empty, the log was valid and was not changed.
        backup: The file that holds the log as it was before; None if nothing was changed.
    """

    session_id: str
    damage: tuple[Damage, ...]
    backup: str | None = None


@runtime_checkable
class RepairableStore(Protocol):
    """The optional methods of a `SessionStore` whose stored data can be damaged."""

    async def damage(self, session_id: str) -> Sequence[Damage]:
        """Return the damage in the stored log of a session, in use or not; change nothing.

        Raises:
            SessionStoreError: The log cannot be read at all.
        """
        ...

    async def repair(self, session_id: str) -> LogRepair:
        """Make the log of a session readable again, all at once or not at all.

        Every readable record keeps its place. A record that keeps the damaged bytes replaces each
        damaged record. A record without bytes replaces each lost one.

        Raises:
            SessionStoreError: The log cannot be read or written; it is unchanged.
            SessionBusy: Another opening of the store uses the session.
        """
        ...


@runtime_checkable
class ResultStore(Protocol):
    """The optional methods of a `SessionStore` that keeps complete texts of cut tool results.

    The texts are not part of the log. They are deleted with their session. The store may drop the
    oldest texts of a session to bound its size. Without these methods, the texts are kept in
    memory.
    """

    async def keep_result(self, session_id: str, tool_use_id: str, chunks: Sequence[bytes]) -> None:
        """Keep the text of a result, which is UTF-8 in chunks.

        Raises:
            Exception: The text could not be kept. The session is not affected.
        """
        ...

    async def read_result(
        self, session_id: str, tool_use_id: str, offset: int, size: int
    ) -> bytes | None:
        """Return up to `size` bytes of a text, from an offset in bytes; None if it is not kept."""
        ...


@runtime_checkable
class SharedStore(Protocol):
    """The optional methods of a `SessionStore` that several openings can share.

    Another opening may have written to or deleted a session that is in memory. Each run that
    acquires a session therefore reads the end of its log again, which also reserves the session for
    this opening. The read is skipped if the store has kept the session since the previous run.
    """

    @property
    def shared(self) -> bool:
        """True if others can open the same store."""
        ...

    def take_nowait(self, session_id: str) -> bool:
        """Reserve the session again if no other opening can have used it since its release.

        Returns:
            True if the session is reserved and its log is unchanged. False: call `load`, which
            reads the current log.
        """
        ...

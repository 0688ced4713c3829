"""The ports: what the runtime asks of the world, as Protocols.

Adapters (`providers`, `stores`, `transport`) implement them, `runtime/wiring.py` plugs them
together, and `tests/contracts/` holds one suite per port that runs over every implementation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import attrs

from agent_actors.domain.events import AnyEvent
from agent_actors.domain.json import JsonValue
from agent_actors.domain.model import ModelCompleted, ModelDelta, ModelRequest
from agent_actors.domain.session import JsonScalar, SessionInfo, SessionOrder, SessionPage
from agent_actors.domain.usage import Usage
from agent_actors.errors import SessionError
from agent_actors.sessions.alignment import Damage


class ModelSink(Protocol):
    """Takes the pieces of an answer while it streams.

    `feed` is synchronous and is called in the reading task, once per network read. Who feeds
    checks `full` before it reads more, and waits in `wait_room` while it is set.
    """

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        ...

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Take these pieces. What it raises ends the stream, and the run.

        Returns:
            True if `full` is surely not set: whoever feeds need not look. Else it has to.
        """
        ...

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        ...


@runtime_checkable
class DeadlineSink(Protocol):
    """What a `ModelSink` is besides where its stream is given up when it is late."""

    def enough(self, stop: Callable[[], object] | None) -> None:
        """From here on lateness is no failure: all that counts has come.

        Args:
            stop: Called once the stream is late, in place of cancelling it: the provider then
                ends it at once, with what it has. None: more has to come after all.
        """
        ...


@runtime_checkable
class BudgetSink(Protocol):
    """What a `ModelSink` is besides where requests are counted."""

    def take_request(self, used: Usage) -> bool:
        """Another request is to be made for the same answer.

        Args:
            used: What the requests before it used, whose answers are a part of it.

        Returns:
            False if there is no room for it in the budget: the answer ends as it is.
        """
        ...


@runtime_checkable
class ModelProvider(Protocol):
    """A model behind some wire. Works without a runtime too."""

    @property
    def name(self) -> str:
        """What errors and statistics call it: usually the endpoint's URL."""
        ...

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        """Ask the model; pieces go to `sink` as they come, the whole answer is returned.

        Raises:
            ProviderError: Whatever failed on the model's side.

        Cancellation: closes the connection; what `sink` got stays there.
        """
        ...

    async def complete(self, request: ModelRequest) -> ModelCompleted:
        """Ask the model and wait for the whole answer.

        Raises:
            ProviderError: Whatever failed on the model's side.

        Cancellation: closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Close what it holds; idempotent."""
        ...


@attrs.frozen
class HttpRequest:
    """A request of bytes.

    Attributes:
        url: The whole URL.
        headers: Names in any case.
        body: The content.
        method: In capitals.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


class ByteSink(Protocol):
    """Takes an HTTP answer while it comes in, in the reading task."""

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        ...

    @property
    def done(self) -> bool:
        """True when nothing more is wanted: the rest is drained briefly or dropped."""
        ...

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer's head; header names in lower case."""
        ...

    def feed(self, data: bytes) -> bool | None:
        """One read's worth of the body.

        Returns:
            True if neither `full` nor `done` is set, surely: whoever feeds need not look. Else it
            has to.
        """
        ...

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        ...


@attrs.frozen
class ConnectionStatistics:
    """The connections of a `ByteExchange`: how many there are, and what became of the others.

    Attributes:
        open: Connections that are open: carrying an exchange, draining or idle.
        idle: Those that wait to be used again.
        waiting: Exchanges that wait for their turn.
        opened: Connections opened so far.
        reused: How often an idle one was used again.
        closed_by_peer: Closed since the peer closed or reset them, idle or not.
        closed_by_answer: Closed after an answer that was the last one for its connection.
        closed_by_fault: Closed since what came was no HTTP, or the sink failed.
        closed_by_cancel: Closed since whoever waited was cancelled or left.
        closed_by_expiry: Closed since nobody used them for too long.
        closed_by_shutdown: Closed by `aclose`.
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
    """What a `ByteExchange` is doing.

    Attributes:
        live: Exchanges under way.
        begun: Exchanges begun so far.
        connections: What it does with connections; None if it cannot tell.
    """

    live: int
    begun: int
    connections: ConnectionStatistics | None = None


class ByteExchange(Protocol):
    """HTTP as the runtime needs it: one request, its answer fed to a sink."""

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        """Send the request and feed its answer to `sink` until it ends or `sink.done`.

        Raises:
            ProviderConnectError: No connection, or it broke.
            ProviderDeadlineError: No connection within the connect deadline.
            ProviderProtocolError: What came is not HTTP.

        Cancellation: closes the connection at once.
        """
        ...

    def statistics(self) -> ExchangeStatistics:
        """A snapshot."""
        ...

    async def aclose(self) -> None:
        """Close every connection; idempotent."""
        ...


@runtime_checkable
class ExchangeOwner(Protocol):
    """A provider that can tell what its connections do."""

    def statistics(self) -> ExchangeStatistics:
        """A snapshot."""
        ...


@attrs.frozen
class LogAppend:
    """Records to append to one session's log, all or none.

    Attributes:
        session_id: The session.
        expected_seq: The `seq` of the log's last record; 0 for an empty log.
        fence: The writer's fencing number; one lower than that of an earlier append of the same
            opening is refused.
        events: The records, at least one, whose `seq` go on from `expected_seq`.
        metadata: Keys to note of the session with this commit; a key whose value is None is
            forgotten. The others stay.
        lines: The events' JSON, one each, to be kept as it stands, with fields that this version
            does not know: what an import or a fork brings along. None: it is made of the events.
    """

    session_id: str
    expected_seq: int
    fence: int
    events: tuple[AnyEvent, ...]
    metadata: Mapping[str, JsonValue] | None = None
    lines: tuple[bytes, ...] | None = None


# What became of one LogAppend: None if it is in the log, else why it is not.
AppendOutcome: TypeAlias = SessionError | None


class SessionStore(Protocol):
    """Keeps the logs of sessions, and what is known of each.

    `load` and `append` are called by the SessionLog actor only, one append at a time; the others
    by anybody. A store that others can open too gives a session to one opening at a time: from
    its first `load` or `append` until `released`, others meet `SessionBusy`.

    Every method but `open`, `evicted`, `released` and `aclose` raises `SessionStoreError` for an
    invalid session id (`domain.session.find_session_id_error`), and for a store that is not open.

    Cancellation: a call that is cancelled stops waiting; what it began may still be carried out,
    and whole, before any later call.
    """

    async def open(self) -> int:
        """Make ready, and return the epoch: a number that grows with every opening.

        Raises:
            SessionStoreError: The store cannot be used.
        """
        ...

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """The session's records with `seq` above `after_seq`, in order; none if it is unknown.

        Raises:
            SessionStoreError: They cannot be read.
            SessionBusy: The session is in use by another opening of the store.
        """
        ...

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        """Commit appends of several sessions together; each stands or falls alone.

        Returns:
            One outcome per append, in order. `SessionFenced` for a stale `expected_seq` or
            `fence`, `SessionBusy` for a session that another opening uses, `SessionStoreError` for
            what could not be written.
        """
        ...

    async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
        """The same records as `load`, each as its line of JSON, as it was written.

        Lines keep what this version does not know; `LogAppend.lines` takes them back. It reads
        sessions that are in use elsewhere too.

        Raises:
            SessionStoreError: They cannot be read.
        """
        ...

    async def info(self, session_id: str) -> SessionInfo | None:
        """What is known of the session; None if it has no records.

        Raises:
            SessionStoreError: It cannot be read.
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
        """A page of the sessions, the newest first.

        Args:
            where: Keys of the metadata and the values they must have, all of them; None stands
                for a key that is not there. None: every session.
            order: By the first record's time, where pages neither repeat nor miss a session, or
                by the last one's, where one that is written to meanwhile moves to the front.
            limit: The most on a page, from 1 to 1,000.
            after: The `next` of the page before, for the same `where` and `order`.

        Raises:
            ConfigError: A bound, an order or an `after` that is none.
            SessionStoreError: They cannot be read.
        """
        ...

    async def annotate(self, session_id: str, metadata: Mapping[str, JsonValue]) -> bool:
        """Note keys of the session's metadata, in use or not; one that is None is forgotten.

        Returns:
            False if the session has no records: nothing was noted.

        Raises:
            SessionStoreError: They could not be written.
        """
        ...

    def evicted(self, session_id: str) -> None:
        """The session has left the runtime's memory: a volatile store forgets it too."""
        ...

    def released(self, session_id: str) -> None:
        """The run on the session has ended: another opening of the store may have it."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session; nothing happens if it is unknown.

        Raises:
            SessionStoreError: It could not be deleted.
            SessionBusy: The session is in use by another opening of the store.
        """
        ...

    async def prune(self, before: float) -> Sequence[str]:
        """Delete the sessions whose last record is older than that, but for those in use.

        Args:
            before: Seconds since the epoch.

        Returns:
            The ids of those that are gone.

        Raises:
            SessionStoreError: They could not be deleted.
        """
        ...

    async def aclose(self) -> None:
        """Close what it holds; idempotent."""
        ...


class InstantStore(Protocol):
    """What a `SessionStore` may offer beside, if it never waits for anything.

    Then the log is read and written where it is asked, with no task in between. A class that
    overrides `load` or `append` alone has more to do there, and is asked by these as before.
    """

    def load_nowait(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        """As `SessionStore.load`."""
        ...

    def append_nowait(self, append: LogAppend) -> AppendOutcome:
        """As `SessionStore.append`, for one append."""
        ...


@attrs.frozen
class LogRepair:
    """What a store repaired in the log of one session.

    Attributes:
        session_id: The session.
        damage: What was wrong; empty: nothing, and nothing was changed.
        backup: The file that holds the log as it was; None if nothing was changed.
    """

    session_id: str
    damage: tuple[Damage, ...]
    backup: str | None = None


@runtime_checkable
class RepairableStore(Protocol):
    """What a `SessionStore` may offer additionally, if what it stores can be damaged."""

    async def damage(self, session_id: str) -> Sequence[Damage]:
        """What is wrong with the stored log of a session; in use or not, and nothing is changed.

        Raises:
            SessionStoreError: The log cannot be read at all.
        """
        ...

    async def repair(self, session_id: str) -> LogRepair:
        """Make the log of a session readable again, all at once or not at all.

        Every readable record stays in its place. The place of a damaged one is taken by a record
        that keeps its bytes, and that of a lost one by a record without any.

        Raises:
            SessionStoreError: The log cannot be read, or not be written; it is as it was.
            SessionBusy: The session is in use by another opening of the store.
        """
        ...


@runtime_checkable
class SharedStore(Protocol):
    """What a `SessionStore` says beside, if others can open it too.

    Then a session in memory may have been overtaken: written to, or deleted, by another opening. So
    the end of its log is read again whenever a run takes it, which also takes it from the others;
    unless the store has kept it since the run before.
    """

    @property
    def shared(self) -> bool:
        """True if others can open the same store."""
        ...

    def take_nowait(self, session_id: str) -> bool:
        """Take the session again, if no other opening can have had it since it was released.

        Returns:
            True if it is taken, and its log as it was; False: `load` tells.
        """
        ...

"""Trace recorders: where `TracingHook` and your own code record spans and events.

A recorder is found through a context variable, so tools, hooks and the runs that they start record
to the recorder of the code that started the run. Without a recorder, nothing is recorded.
"""

import json
import logging
import os
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Literal, Protocol, Self, TypeAlias, cast

import attrs
import trio

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError

_LOG: Final = logging.getLogger(__name__)

_recorder: Final[ContextVar["TraceRecorder | None"]] = ContextVar(
    "agent_actors_trace_recorder", default=None
)
_parent: Final[ContextVar[str]] = ContextVar("agent_actors_trace_parent", default="")

_NO_ATTRIBUTES: Final[Mapping[str, JsonValue]] = {}


@attrs.frozen
class TraceRecord:
    """A span that has ended, or an event.

    Attributes:
        kind: `span` or `event`.
        name: The name, for example `llm.call`.
        id: The id of the span; empty for an event.
        parent_id: The span that was open around this record; empty if there was none.
        started_at: The start time, in seconds since the epoch.
        duration: The duration in seconds; 0 for an event.
        attributes: The attributes.
        error: The type and the message of the exception that ended the span; None if none did.
    """

    kind: Literal["span", "event"]
    name: str
    id: str
    parent_id: str
    started_at: float
    duration: float = 0.0
    attributes: Mapping[str, JsonValue] = _NO_ATTRIBUTES
    error: str | None = None

    def as_json(self) -> JsonObject:
        """Return the record as a JSON object."""
        return {**attrs.asdict(self), "attributes": dict(self.attributes)}


@attrs.define(eq=False)
class SpanHandle:
    """A span that is being recorded.

    Use it as a context manager, or call `end`. While the `with` block runs, the span is the parent
    of other spans and events of the task. An exception that leaves the block is recorded.

    Args:
        name: The name of the span.
        write: Called with the record when the span ends.
        attributes: The first attributes.
    """

    _name: str
    _write: Callable[[TraceRecord], None]
    _attributes: dict[str, JsonValue]
    _id: str = attrs.field(factory=lambda: uuid.uuid4().hex[:16], init=False)
    _parent_id: str = attrs.field(factory=_parent.get, init=False)
    _started_at: float = attrs.field(factory=time.time, init=False)
    _began: float = attrs.field(factory=time.perf_counter, init=False)
    _error: str | None = attrs.field(default=None, init=False)
    _outer: str | None = attrs.field(default=None, init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def set(self, **attributes: JsonValue) -> Self:
        """Set attributes, and return this span."""
        self._attributes.update(attributes)
        return self

    def record_error(self, error: BaseException) -> Self:
        """Record an exception, and return this span."""
        cancelled = isinstance(error, trio.Cancelled)
        self._error = "cancelled" if cancelled else f"{type(error).__name__}: {error}"
        return self

    def end(self) -> None:
        """End the span, and record it with its duration. Idempotent."""
        if self._ended:
            return
        self._ended = True
        self._write(
            TraceRecord(
                "span",
                self._name,
                self._id,
                self._parent_id,
                self._started_at,
                time.perf_counter() - self._began,
                dict(self._attributes),
                self._error,
            )
        )

    def __enter__(self) -> Self:
        self._outer = _parent.get()
        _parent.set(self._id)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: object
    ) -> None:
        _parent.set(self._outer or "")
        if exc is not None:
            self.record_error(exc)
        self.end()


class TraceRecorder(Protocol):
    """Records spans and events. Implement it to send them elsewhere."""

    def start_span(self, name: str, /, **attributes: JsonValue) -> SpanHandle:
        """Start a span. The caller must end it."""
        ...

    def record_event(self, name: str, /, **attributes: JsonValue) -> None:
        """Record an event that has no duration."""
        ...


class _WritingRecorder(ABC):
    """A recorder that writes each record at once."""

    def start_span(self, name: str, /, **attributes: JsonValue) -> SpanHandle:
        """Start a span. The caller must end it."""
        return SpanHandle(name, self._write, attributes)

    def record_event(self, name: str, /, **attributes: JsonValue) -> None:
        """Record an event that has no duration."""
        self._write(
            TraceRecord("event", name, "", _parent.get(), time.time(), attributes=attributes)
        )

    @abstractmethod
    def _write(self, record: TraceRecord) -> None:
        """Keep a record."""


class MemoryTraceRecorder(_WritingRecorder):
    """A `TraceRecorder` that keeps the records in memory.

    Attributes:
        records: The records, in the order in which the spans ended.
    """

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []

    def _write(self, record: TraceRecord) -> None:
        self.records.append(record)


class JsonlTraceRecorder(_WritingRecorder):
    """A `TraceRecorder` that appends each record to a file, as one line of JSON.

    `agent-actors trace FILE` shows the file. Each record is one write that is not flushed to the
    disk. If it fails, the record is dropped, and a warning is logged. Several threads may use the
    recorder. Use it as a context manager, or call `close`.

    Args:
        path: The file, which is created if it is missing; only the owner can read a new file.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file; later records are dropped. Idempotent."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, record: TraceRecord) -> None:
        # ASCII-only, so that lone surrogates, which models may write, can be encoded.
        line = json.dumps(record.as_json()).encode("ascii") + b"\n"
        with self._lock:
            if self._file is None:
                return
            try:
                os.write(self._file, line)
            except OSError as error:
                _LOG.warning("a record of the trace was dropped: %s", error)


RecordedTrace: TypeAlias = tuple[TraceRecord, ...]


def read_trace(path: str | os.PathLike[str]) -> RecordedTrace:
    """Read the records that a `JsonlTraceRecorder` has written.

    An incomplete last line, as a crash may leave it, is ignored.

    Raises:
        OSError: The file cannot be read.
        ConfigError: A line is not a record of a trace.
    """
    return tuple(_records(Path(path).read_text(encoding="utf-8"), os.fspath(path)))


def _records(text: str, path: str) -> Iterator[TraceRecord]:
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            fields = cast("dict[str, object]", json.loads(line))
            yield TraceRecord(**fields)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}, line {number}: expected a record of a trace, as JsonlTraceRecorder "
                f"writes it; {error}"
            ) from None


def current_trace_recorder() -> TraceRecorder | None:
    """Return the recorder of the current code; None if there is none."""
    return _recorder.get()


@contextmanager
def use_trace_recorder(recorder: TraceRecorder | None) -> Generator[None]:
    """Use a recorder in the block, in the runs that the block starts, and in their tools and hooks.

    Args:
        recorder: The recorder; None records nothing.
    """
    outer = _recorder.get()
    _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.set(outer)

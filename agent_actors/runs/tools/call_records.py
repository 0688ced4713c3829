"""The events that tools and hooks record with `ctx.record` during a tool call."""

import threading
from typing import Final, cast

import attrs

from agent_actors.domain.events import EventBuilder

_LOCK: Final = threading.Lock()


@attrs.define(eq=False)
class CallRecords:
    """Keeps the events recorded for open calls until the results of the calls are recorded.

    A lock protects the table, because a handler in a thread may record an event at any time. All
    runs share the lock, because it is held for less than a microsecond.
    """

    _open: dict[str, list[EventBuilder]] = attrs.field(
        factory=lambda: cast("dict[str, list[EventBuilder]]", {}), init=False
    )

    def begin(self, call_id: str) -> None:
        """Start accepting events for a call."""
        self._open[call_id] = []

    def add(self, call_id: str, builder: EventBuilder) -> None:
        """Keep an event until the result of its call is recorded.

        Raises:
            RuntimeError: The call has ended.
        """
        with _LOCK:
            records = self._open.get(call_id)
            if records is None:
                raise RuntimeError(
                    f"call {call_id!r} has ended; ctx.record() can be called only during the call"
                )
            records.append(builder)

    def end(self, call_id: str) -> list[EventBuilder]:
        """Return the events of a call that has ended, and stop accepting events for it."""
        with _LOCK:
            return self._open.pop(call_id, [])

    def end_all(self) -> list[EventBuilder]:
        """Return the events of all open calls, and stop accepting events for them."""
        with _LOCK:
            left, self._open = self._open, {}
        return [builder for records in left.values() for builder in records]

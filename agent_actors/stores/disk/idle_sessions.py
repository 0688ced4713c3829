"""Sessions that no run is using, but that this instance of the store still holds.

The next run on a session often follows immediately. If no other instance has the store open, an
idle session is therefore held for a while, so that its log need not be read again. The event loop
adds and takes sessions; the store's thread takes sessions to release them. Each step is protected
by a lock, so a session is either taken again or released, never both.
"""

import threading
import time
from collections.abc import Callable

import attrs


@attrs.define(eq=False)
class IdleSessions:
    """The idle sessions that this instance of the store holds.

    Args:
        clock: Returns seconds.

    Attributes:
        news: True if a session was added since the last call of `due`.
    """

    _clock: Callable[[], float] = time.monotonic
    news: bool = attrs.field(default=False, init=False)
    _since: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def __bool__(self) -> bool:
        return bool(self._since)

    def add(self, session_id: str) -> None:
        """Add a session whose run has ended."""
        with self._lock:
            self._since[session_id] = self._clock()
            self.news = True

    def take(self, session_id: str) -> bool:
        """Take a session for a new run; return False if the session is not held."""
        with self._lock:
            return self._since.pop(session_id, None) is not None

    def due(self, seconds: float) -> list[str]:
        """Remove and return the sessions that have been idle for at least `seconds`."""
        horizon = self._clock() - seconds
        with self._lock:
            self.news = False
            due = [session_id for session_id, since in self._since.items() if since <= horizon]
            for session_id in due:
                del self._since[session_id]
        return due

    def clear(self) -> None:
        """Remove all sessions."""
        with self._lock:
            self._since.clear()

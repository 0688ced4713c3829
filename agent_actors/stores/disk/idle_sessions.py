"""Sessions that no run uses, and that their opening still has.

A session's next run often follows at once; as long as no other opening of the store is there, it is
kept for a while, so that its log need not be read again. Owns nothing but the list. The event loop
adds to it and takes from it, and the store's thread takes what is to be given back: each is one
step under a lock, so that a session is either taken again or given back, and never both.
"""

import threading
import time
from collections.abc import Callable

import attrs


@attrs.define(eq=False)
class KeptSessions:
    """See above.

    Args:
        clock: Seconds.

    Attributes:
        news: Whether any was added since `due` was asked.
    """

    _clock: Callable[[], float] = time.monotonic
    news: bool = attrs.field(default=False, init=False)
    _since: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def __bool__(self) -> bool:
        return bool(self._since)

    def add(self, session_id: str) -> None:
        """A run on the session has ended."""
        with self._lock:
            self._since[session_id] = self._clock()
            self.news = True

    def take(self, session_id: str) -> bool:
        """Whether it was kept; it is in use from here on."""
        with self._lock:
            return self._since.pop(session_id, None) is not None

    def due(self, seconds: float) -> list[str]:
        """Those that were kept for so long, and are to be given back."""
        horizon = self._clock() - seconds
        with self._lock:
            self.news = False
            due = [session_id for session_id, since in self._since.items() if since <= horizon]
            for session_id in due:
                del self._since[session_id]
        return due

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._since.clear()

"""The files that each session has read, to notice changes by others, and a lock for its changes.

This knowledge is kept in memory only. A session that is resumed in another process has read nothing
there. Old knowledge is dropped when there is too much: first texts, then versions.
"""

from collections import OrderedDict
from typing import Final
from weakref import WeakValueDictionary

import attrs
import trio

MAX_TEXT: Final = 256_000
"""Maximum number of characters of a text that is kept."""

_MAX_TOTAL: Final = 32_000_000
_MAX_FILES: Final = 50_000


@attrs.frozen
class SeenFile:
    """The state of a file when a session last read or wrote it.

    Attributes:
        version: The `FileInfo.version`.
        text: The text; None if it is too long or no longer kept.
    """

    version: str
    text: str | None = None


class SessionFiles:
    """The files that the sessions of a set of tools have read.

    Args:
        max_total: Maximum number of characters of all texts.
        max_files: Maximum number of files of all sessions.
    """

    def __init__(self, *, max_total: int = _MAX_TOTAL, max_files: int = _MAX_FILES) -> None:
        self._max_total = max_total
        self._max_files = max_files
        # The files whose state was remembered longest ago come first.
        self._seen: OrderedDict[tuple[str, str], SeenFile] = OrderedDict()
        self._texts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._total = 0
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    def seen(self, session_id: str, path: str) -> SeenFile | None:
        """Return the state that a session knows; None if it has not read the file."""
        return self._seen.get((session_id, path))

    def remember(self, session_id: str, path: str, version: str, text: str | None) -> None:
        """Remember the state that a session has read or written.

        Args:
            session_id: The session.
            path: The file, in the form of `FileInfo.path`.
            version: The `FileInfo.version`.
            text: The complete text; None if the session does not know it.
        """
        key = session_id, path
        self.forget(session_id, path)
        kept = text if text is not None and len(text) <= MAX_TEXT else None
        self._seen[key] = SeenFile(version, kept)
        if kept is not None:
            self._texts[key] = len(kept)
            self._total += len(kept)
        while self._total > self._max_total:
            old, size = self._texts.popitem(last=False)
            self._total -= size
            self._seen[old] = SeenFile(self._seen[old].version)
        while len(self._seen) > self._max_files:
            self.forget(*next(iter(self._seen)))

    def forget(self, session_id: str, path: str) -> None:
        """Forget a file, for example because it was deleted."""
        self._seen.pop((session_id, path), None)
        self._total -= self._texts.pop((session_id, path), 0)

    def lock(self, session_id: str) -> trio.Lock:
        """Return the lock that a call holds from reading a file to writing it.

        Calls of one response run in parallel. Without the lock, the second of two edits of a file
        would fail, because the first one changes the file.
        """
        lock = self._locks.get(session_id)
        if lock is None:
            lock = self._locks[session_id] = trio.Lock()
        return lock

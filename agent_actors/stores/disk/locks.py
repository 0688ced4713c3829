"""File locks that give each session to one instance of a store at a time.

Each instance opens the lock file and locks one byte per session, at an offset derived from the
session id. The kernel releases the locks when a process dies, for whatever reason. Locks therefore
need no expiry, and a crashed run's session is available immediately. The locks belong to the open
file (open file description locks of Linux), not to the process, so two instances in one process
exclude each other too.

A forked child shares the open file, and would keep its locks after the death of the parent. The
child therefore closes its descriptor of the lock file when it begins.

On systems without such locks, an instance locks the whole file and excludes every other instance
from the store.
"""

import errno
import fcntl
import os
import struct
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final
from weakref import WeakSet

# F_OFD_SETLK; None on systems that only have locks that belong to the process.
OFD_SETLK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)

# The offsets of sessions are below 2**62, so that an offset and its byte fit into any off_t.
_PLACE_BITS: Final = 62
# An offset beyond all sessions, locked while an instance opens the store.
_OPENING: Final = 1 << _PLACE_BITS
# An offset that all instances lock shared. An instance that could lock it exclusively is alone.
_PRESENCE: Final = _OPENING + 1
# Seconds to wait while another instance opens the store, and seconds between attempts.
_OPENING_TIMEOUT: Final = 5.0
_LOOK_EVERY: Final = 0.01

_REFUSED: Final = frozenset({errno.EAGAIN, errno.EACCES})


class StoreLocks:
    """The locks of one instance of a store.

    Args:
        path: The lock file, created if missing; only its owner may access it.

    Raises:
        OSError: The file cannot be created or locked.
        StoreInUse: Another instance is still opening the store. On systems without locks per
            session: another instance has the store open.
    """

    def __init__(self, path: Path) -> None:
        self._held: set[str] = set()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        _open_locks.add(self)
        try:
            self._ready()
        except BaseException:
            self.close()
            raise

    def _ready(self) -> None:
        deadline = time.monotonic() + _OPENING_TIMEOUT
        # An instance that checks whether it is alone blocks the second lock for a moment.
        while not (self._lock_opening() and self._set(fcntl.F_RDLCK, _PRESENCE)):
            if time.monotonic() > deadline:
                raise StoreInUse("another process uses the store or is still opening it; try again")
            time.sleep(_LOOK_EVERY)

    def _lock_opening(self) -> bool:
        if OFD_SETLK is not None:
            return self._set(fcntl.F_WRLCK, _OPENING)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _REFUSED:
                return False
            raise
        return True

    def made_ready(self) -> None:
        """Let the next instance open the store, now that this instance has opened it."""
        self._set(fcntl.F_UNLCK, _OPENING)

    def alone(self) -> bool:
        """Return whether no other instance has the store open.

        Raises:
            OSError: The system cannot tell.
        """
        if not self._set(fcntl.F_WRLCK, _PRESENCE):
            return False
        return self._set(fcntl.F_RDLCK, _PRESENCE)

    def holds(self, session_id: str) -> bool:
        """Return whether this instance holds the session."""
        return session_id in self._held

    def take(self, session_id: str) -> bool:
        """Acquire the session. Return False if another instance holds it.

        Raises:
            OSError: The system cannot tell.
        """
        if session_id in self._held:
            return True
        if not self._set(fcntl.F_WRLCK, _place(session_id)):
            return False
        self._held.add(session_id)
        return True

    def give_back(self, session_id: str) -> None:
        """Release the session; do nothing if this instance does not hold it."""
        if session_id in self._held:
            self._held.remove(session_id)
            self._set(fcntl.F_UNLCK, _place(session_id))

    def close(self) -> None:
        """Release all locks. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._held.clear()

    def _set(self, kind: int, place: int) -> bool:
        if OFD_SETLK is None:
            return True  # this instance has locked the whole file
        # The C library's `struct flock`: type, whence, start, length, pid.
        wanted = struct.pack("hhqqi", kind, os.SEEK_SET, place, 1, 0)
        try:
            fcntl.fcntl(self._file, OFD_SETLK, wanted)
        except OSError as error:
            if error.errno in _REFUSED:
                return False
            raise
        return True


class StoreInUse(Exception):
    """Another instance has locked the whole store, or takes too long to open it."""


# The locks of this process that may be open.
_open_locks: Final[WeakSet[StoreLocks]] = WeakSet()


def _close_in_child() -> None:
    for locks in tuple(_open_locks):
        with suppress(OSError):
            locks.close()


# Closing a descriptor keeps the locks of the parent, whose descriptor stays open.
os.register_at_fork(after_in_child=_close_in_child)


def _place(session_id: str) -> int:
    digest = blake2b(session_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - _PLACE_BITS)

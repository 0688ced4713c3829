"""File locks that give each session to one instance of a store at a time.

Each instance opens the lock file and locks one byte per session, at an offset derived from the
session id. The kernel releases the locks when a process dies, whatever the reason. Locks therefore
need no expiry, and the session of a crashed run is available again immediately. The locks belong to
the open file (they are Linux's open file description locks), not to the process, so two instances
in the same process exclude each other too.

A forked child shares the open file, and would keep the locks after the parent's death. The child
therefore closes its descriptor for the lock file as soon as it starts.

On systems without such locks, an instance locks the entire file, which excludes every other
instance from the store.
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

# F_OFD_SETLK; None on systems whose locks belong to the process.
OFD_SETLK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)

# Sessions have offsets below 2**62, so that an offset and its byte fit into any off_t.
_PLACE_BITS: Final = 62
# An offset beyond all sessions, locked while an instance opens the store.
_OPENING: Final = 1 << _PLACE_BITS
# An offset on which every instance has a shared lock. An instance that can lock it exclusively is
# alone.
_PRESENCE: Final = _OPENING + 1
# How many seconds to wait while another instance opens the store, and between attempts.
_OPENING_TIMEOUT: Final = 5.0
_LOOK_EVERY: Final = 0.01

_REFUSED: Final = frozenset({errno.EAGAIN, errno.EACCES})


class StoreLocks:
    """The locks of one instance of a store.

    Args:
        path: The lock file. If it is missing, it is created, and only its owner can access it.

    Raises:
        OSError: The file cannot be created or locked.
        StoreInUse: Another instance is still opening the store or, on systems without locks per
            session, has the store open.
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
        # While another instance checks whether it is alone, it blocks this second lock for a
        # moment.
        while not (self._lock_opening() and self._set(fcntl.F_RDLCK, _PRESENCE)):
            if time.monotonic() > deadline:
                raise StoreInUse(
                    "another process is using the store or is still opening it; try again later"
                )
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
        """Let the next instance open the store, because this instance has finished opening it."""
        self._set(fcntl.F_UNLCK, _OPENING)

    def alone(self) -> bool:
        """Return whether this is the only instance that has the store open.

        Raises:
            OSError: The system cannot determine this.
        """
        if not self._set(fcntl.F_WRLCK, _PRESENCE):
            return False
        return self._set(fcntl.F_RDLCK, _PRESENCE)

    def holds(self, session_id: str) -> bool:
        """Return whether this instance holds the session."""
        return session_id in self._held

    def take(self, session_id: str) -> bool:
        """Acquire the session; return False if another instance holds it.

        Raises:
            OSError: The system cannot determine this.
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
            return True  # this instance has locked the entire file
        # The C library's `struct flock`: type, whence, start, length, pid.
        request = struct.pack("hhqqi", kind, os.SEEK_SET, place, 1, 0)
        try:
            fcntl.fcntl(self._file, OFD_SETLK, request)
        except OSError as error:
            if error.errno in _REFUSED:
                return False
            raise
        return True


class StoreInUse(Exception):
    """Another instance has locked the entire store, or takes too long to open it."""


# The locks that may be open in this process.
_open_locks: Final[WeakSet[StoreLocks]] = WeakSet()


def _close_in_child() -> None:
    for locks in tuple(_open_locks):
        with suppress(OSError):
            locks.close()


# Closing this descriptor does not release the parent's locks, because the parent's descriptor stays
# open.
os.register_at_fork(after_in_child=_close_in_child)


def _place(session_id: str) -> int:
    digest = blake2b(session_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - _PLACE_BITS)

"""Which opening of a store may write which session, told by the system's own file locks.

Owns one lock file per opening, and the locks in it: a byte for each session, at a place made from
its id. The kernel gives them back when a process dies, however it dies, so that nothing has to
expire and a crashed run's session is free at once. They belong to the open file (Linux's open file
description locks), not to the process: two openings in one process exclude each other too.

Where a system has no such locks, an opening locks the whole file instead, and keeps every other
opening of the store out.
"""

import errno
import fcntl
import os
import struct
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final

# F_OFD_SETLK; None where there are only locks that belong to the process.
OFD_SETLK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)

# Places of sessions are below 2**62, so that a place and its byte fit into any off_t.
_PLACE_BITS: Final = 62
# Beyond all sessions: held while an opening makes the store ready.
_OPENING: Final = 1 << _PLACE_BITS
# Shared by all openings: who could have it alone is alone.
_PRESENCE: Final = _OPENING + 1
# Seconds to wait for another opening to have made the store ready, and between looks.
_OPENING_TIMEOUT: Final = 5.0
_LOOK_EVERY: Final = 0.01

_REFUSED: Final = frozenset({errno.EAGAIN, errno.EACCES})


class StoreLocks:
    """The locks of one opening of a store.

    Args:
        path: The lock file; made if it is not there, for its owner only.

    Raises:
        OSError: It cannot be made.
        StoreInUse: The system has no locks by session, and another opening has the store.
    """

    def __init__(self, path: Path) -> None:
        self._held: set[str] = set()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        try:
            self._ready()
        except BaseException:
            os.close(self._file)
            raise

    def _ready(self) -> None:
        deadline = time.monotonic() + _OPENING_TIMEOUT
        # Whoever looks whether it is alone holds up the second of these for a moment.
        while not (self._lock_opening() and self._set(fcntl.F_RDLCK, _PRESENCE)):
            if time.monotonic() > deadline:
                raise StoreInUse
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
        """The store is ready: let the next opening look at it."""
        self._set(fcntl.F_UNLCK, _OPENING)

    def alone(self) -> bool:
        """Whether this is the only opening.

        Raises:
            OSError: The system cannot tell.
        """
        if not self._set(fcntl.F_WRLCK, _PRESENCE):
            return False
        return self._set(fcntl.F_RDLCK, _PRESENCE)

    def holds(self, session_id: str) -> bool:
        """Whether this opening has the session."""
        return session_id in self._held

    def take(self, session_id: str) -> bool:
        """Take the session, if no other opening has it; True if this one has it now.

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
        """Let others have the session; nothing happens if this opening does not have it."""
        if session_id in self._held:
            self._held.remove(session_id)
            self._set(fcntl.F_UNLCK, _place(session_id))

    def close(self) -> None:
        """Give everything back; idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._held.clear()

    def _set(self, kind: int, place: int) -> bool:
        if OFD_SETLK is None:
            return True  # this opening has the whole store
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
    """Another opening has the whole store, or takes too long to make it ready."""


def _place(session_id: str) -> int:
    digest = blake2b(session_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - _PLACE_BITS)

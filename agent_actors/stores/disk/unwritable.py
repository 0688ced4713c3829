"""Recognises errors after which a store cannot be written, although it may be readable."""

import errno
import sqlite3
from typing import Final

_ERRORS: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT})
# SQLite reports CANTOPEN if it cannot create a file, and IOERR if there is no space for a `-shm`
# file.
_SQLITE_ERRORS: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
# SQLite's extended error codes have the primary code in their lowest byte.
_PRIMARY: Final = 0xFF


def is_unwritable(error: BaseException) -> bool:
    """Return whether the error means that nothing can be written: read-only, forbidden or full."""
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", None)
        return isinstance(code, int) and code & _PRIMARY in _SQLITE_ERRORS
    return False

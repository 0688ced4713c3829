"""Recognises errors because of which a store cannot be written, although it may be readable."""

import errno
import sqlite3
from typing import Final

_ERRORS: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT})
# SQLite reports a file that it cannot create as CANTOPEN, and a `-shm` file for which there is no
# space as IOERR.
_SQLITE_ERRORS: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
# The extended error codes of SQLite have the primary code in their lowest byte.
_PRIMARY: Final = 0xFF


def is_unwritable(error: BaseException) -> bool:
    """Return whether the error says that files cannot be written: read-only, forbidden or full."""
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", None)
        return isinstance(code, int) and code & _PRIMARY in _SQLITE_ERRORS
    return False

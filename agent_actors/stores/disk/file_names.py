"""Creates directory names for session ids, unique and valid on every file system.

Pure. Each byte of these characters is escaped as `%` and two hexadecimal digits:

- upper-case letters, because some file systems ignore case;
- dots at either end of an id;
- the first character of names that are reserved for devices on some systems;
- every other character except ASCII letters, digits, `.`, `_` and `-`.

Therefore no name contains a separator, no name is `.` or `..`, and different ids have different
names. If the escaped name would be too long for a file system, the name is `%~` followed by a
digest of the id. No escape sequence begins with `%~`.
"""

import re
from hashlib import sha256
from typing import Final

# Maximum number of characters. File systems accept 255 bytes; the rest is reserved for suffixes.
_LONGEST: Final = 200

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def directory_name(session_id: str) -> str:
    """Return the directory name for a valid session id (see `find_session_id_error`)."""
    name = "".join(
        character if character in _PLAIN else _escaped(character) for character in session_id
    )
    if name.startswith(".") or _DEVICE.fullmatch(name):
        name = _escaped(name[0]) + name[1:]
    if name.endswith("."):
        name = name[:-1] + _escaped(".")
    if len(name) > _LONGEST:
        return f"%~{sha256(session_id.encode()).hexdigest()}"
    return name


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode())

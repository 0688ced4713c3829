"""Names of directories for session ids: one for each, on every file system.

Pure. An id that could be mistaken for something else is spelled with escapes, `%` and two
hexadecimal digits a byte: capitals, since some systems do not tell them from small letters; dots
and blanks at its ends; names that a system keeps for its devices; and all but letters, digits and
`._-` of ASCII. So no name has a separator, none is `.` or `..`, and different ids have different
names. Where that would be too long for a file name, a digest stands for the id, marked by `%~`,
which no escape looks like.
"""

import re
from hashlib import sha256
from typing import Final

# File systems take 255 bytes; the rest is left for what others append to a name.
_LONGEST: Final = 200

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def directory_name(session_id: str) -> str:
    """The directory's name for a session id that is one (`find_session_id_error`)."""
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

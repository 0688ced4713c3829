"""The end of a session's log, determined from the last bytes of its file."""

import os
from contextlib import suppress
from typing import Final

import attrs
import msgspec

from agent_actors.sessions.alignment import aligned
from agent_actors.stores.disk.safe_files import read_from

# Number of bytes to read in the first attempt to find the last line. Most lines are shorter.
_TAIL: Final = 16_384


@attrs.define(eq=False)
class LogEnd:
    """The end of a log, up to its last complete line.

    Attributes:
        size: The size in bytes.
        last_seq: `seq` of the last record.
        updated_at: Time of the last record.
        inode: The inode number of the file; None if there was no file.
    """

    size: int = 0
    last_seq: int = 0
    updated_at: float = 0.0
    inode: int | None = None

    def find_change(self, log: os.stat_result) -> str | None:
        """Describe how another program has changed the log since; None if it has not.

        Args:
            log: The status of the current file.
        """
        if self.inode is not None and self.inode != log.st_ino:
            return "replaced by another file"
        if self.size != log.st_size:
            return f"changed from {self.size} to {log.st_size} bytes"
        return None


class _Header(msgspec.Struct):
    """The fields of a record that describe the end of a log."""

    seq: int
    ts: float = 0.0


_HEADER: Final = msgspec.json.Decoder(_Header)


def end_of(session_id: str, log: int) -> LogEnd:
    """Return the end of a log, ignoring bytes after the last line break."""
    found = os.fstat(log)
    size, inode = found.st_size, found.st_ino
    length = _TAIL
    while True:
        start = max(0, size - length)
        text = read_from(log, start)
        last = text.rfind(b"\n")
        first = text.rfind(b"\n", 0, last) + 1 if last > 0 else 0
        if first or not start:
            break
        length *= 4
    if last < 0:
        return LogEnd(inode=inode)
    size = start + last + 1
    try:
        header = _HEADER.decode(text[first:last])
    except (ValueError, RecursionError):
        return _end_of_damaged(session_id, read_from(log, 0)[:size], inode)
    return LogEnd(size, header.seq, header.ts, inode)


def _end_of_damaged(session_id: str, text: bytes, inode: int) -> LogEnd:
    """Return the end of a log whose last line is damaged, from all of its lines."""
    found = aligned(session_id, text.split(b"\n")[:-1])
    updated_at = 0.0
    for line in found.lines:
        with suppress(ValueError, RecursionError):
            updated_at = max(updated_at, _HEADER.decode(line).ts)
    return LogEnd(len(text), len(found.lines), updated_at, inode)

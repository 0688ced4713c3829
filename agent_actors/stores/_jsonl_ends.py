"""Where the log of a session ends, read from the end of its file."""

import os
from contextlib import suppress
from typing import Final

import attrs
import msgspec

from agent_actors.sessions.alignment import aligned
from agent_actors.stores.disk.safe_files import read_from

# Bytes that are read at once from a log's end to find its last line; most are shorter.
_TAIL: Final = 16_384


@attrs.define(eq=False)
class LogEnd:
    """Where a log ends: its bytes, and its last record."""

    size: int = 0
    last_seq: int = 0
    updated_at: float = 0.0


class _Header(msgspec.Struct):
    """What is read of a record to tell where a log ends."""

    seq: int
    ts: float = 0.0


_HEADER: Final = msgspec.json.Decoder(_Header)


def end_of(session_id: str, log: int) -> LogEnd:
    """Where a log's last line with an end stops, and what it says; what follows does not count."""
    size = os.fstat(log).st_size
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
        return LogEnd()
    size = start + last + 1
    try:
        header = _HEADER.decode(text[first:last])
    except (ValueError, RecursionError):
        return _end_of_damaged(session_id, read_from(log, 0)[:size])
    return LogEnd(size, header.seq, header.ts)


def _end_of_damaged(session_id: str, text: bytes) -> LogEnd:
    """The end of a log whose last line says nothing: all lines tell how many records there are."""
    found = aligned(session_id, text.split(b"\n")[:-1])
    updated_at = 0.0
    for line in found.lines:
        with suppress(ValueError, RecursionError):
            updated_at = max(updated_at, _HEADER.decode(line).ts)
    return LogEnd(len(text), len(found.lines), updated_at)

"""Records in a compact form: compressed JSON lines, for sessions in memory that are not in use.

Consecutive records repeat their header and most of their fields, so compressing them saves nine
tenths of the memory. Records are packed only if they can be read back unchanged.
"""

import zlib
from collections.abc import Sequence
from typing import Final

from agent_actors.codec.events import encode_event, loads_event, loads_events
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.events import (
    AnyEvent,
    AssistantMessage,
    ResultEvent,
    SystemInit,
    UsageEvent,
    UserMessage,
)
from agent_actors.errors import InvalidEventError

# The fastest level. Higher levels save only a tenth more.
_LEVEL: Final = 1
# The encoder replaces lone surrogates by this character.
_REPLACED: Final = "\ufffd".encode()


def pack_records(records: Sequence[AnyEvent]) -> bytes | None:
    """Return the records in compact form; None if a record could not be read back unchanged."""
    lines: list[bytes] = []
    for record in records:
        try:
            line = encode_event(record)
        except (InvalidEventError, TypeError, ValueError):
            return None
        if (_REPLACED in line or not _is_plain(record)) and loads_event(line) != record:
            return None
        lines.append(line)
    return zlib.compress(b"\n".join(lines), _LEVEL)


def unpack_records(data: bytes) -> Sequence[AnyEvent]:
    """Return the records of `pack_records`."""
    return loads_events(zlib.decompress(data).split(b"\n"))


def _is_plain(record: AnyEvent) -> bool:
    """Return whether JSON represents the record exactly, which needs no test in most cases."""
    match record:
        case SystemInit() | UsageEvent():
            return True
        case UserMessage(blocks=blocks) | AssistantMessage(blocks=blocks):
            return all(type(block) is TextBlock and not block.extra for block in blocks)
        case ResultEvent(output=output):
            return output is None
        case _:
            return False

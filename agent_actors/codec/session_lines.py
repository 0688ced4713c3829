"""Records as lines of JSON that stay as they are, and how much a message takes.

A line keeps what this version does not know; here it is moved to another session, and all else in
it stays as it was written. `codec/events.py` reads and writes what this version does know.
"""

from typing import Final

import msgspec

from agent_actors.codec.blocks import dump_block
from agent_actors.codec.json_values import to_json
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, nests_deeper
from agent_actors.domain.messages import Message
from agent_actors.errors import InvalidEventError

_DECODE_RAW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODE_TEXT: Final = msgspec.json.Decoder(str).decode


def session_of(line: bytes) -> str:
    """The session that a record names.

    Raises:
        InvalidEventError: It is no JSON object, or names none.
    """
    named = _fields(line).get("session_id")
    if named is None:
        raise InvalidEventError("expected a record with a session_id, and this has none")
    try:
        return _DECODE_TEXT(named)
    except ValueError as error:
        raise InvalidEventError(f"expected text for a session_id: {error}") from None


def moved_line(line: bytes, session_id: str) -> bytes:
    """The record as one of another session's; all else in it stays as it was written.

    Raises:
        InvalidEventError: It is no JSON object.
    """
    fields = _fields(line)
    fields["session_id"] = msgspec.Raw(msgspec.json.encode(session_id))
    return msgspec.json.encode(fields)


def _fields(line: bytes) -> dict[str, msgspec.Raw]:
    if nests_deeper(line, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(f"expected a record of at most {MAX_DOCUMENT_DEPTH} nested levels")
    try:
        return _DECODE_RAW(line)
    except ValueError as error:
        raise InvalidEventError(f"expected the JSON of a record: {error}") from None


def size_of(message: Message) -> int:
    """How many bytes a message takes as JSON, as its record keeps it."""
    blocks = [dump_block(block) for block in message.blocks]
    try:
        return len(msgspec.json.encode(blocks))
    except UnicodeEncodeError:  # halves of characters
        return len(msgspec.json.encode(to_json(blocks, levels=MAX_DOCUMENT_DEPTH)))

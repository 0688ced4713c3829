"""Operations on the JSON lines of records without decoding them, and the size of messages.

A line may contain fields that this version does not know. They are kept unchanged when a line is
moved to another session. `codec/events.py` reads and writes the fields that this version knows.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from agent_actors.codec.blocks import dump_block
from agent_actors.codec.json_values import to_json
from agent_actors.domain.json import MAX_DOCUMENT_DEPTH, JsonValue, nests_deeper
from agent_actors.domain.messages import Message
from agent_actors.errors import InvalidEventError

_DECODE_RAW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODE_TEXT: Final = msgspec.json.Decoder(str).decode


def session_of(line: bytes) -> str:
    """Return the session id in a record.

    Raises:
        InvalidEventError: The line is not a JSON object, or has no session id.
    """
    named = _fields(line).get("session_id")
    if named is None:
        raise InvalidEventError("expected a record with a session_id, but this one has none")
    try:
        return _DECODE_TEXT(named)
    except ValueError as error:
        raise InvalidEventError(f"session_id must be text: {error}") from None


def completed_line(line: bytes, header: Mapping[str, JsonValue]) -> bytes:
    """Return the record with these fields added where missing; its other fields stay unchanged.

    Raises:
        InvalidEventError: The line is not a JSON object.
    """
    fields = _fields(line)
    missing = {name: value for name, value in header.items() if name not in fields}
    return msgspec.json.encode({**fields, **missing}) if missing else line


def moved_line(line: bytes, session_id: str) -> bytes:
    """Return the record with another session id; all other fields stay unchanged.

    Raises:
        InvalidEventError: The line is not a JSON object.
    """
    fields = _fields(line)
    fields["session_id"] = msgspec.Raw(msgspec.json.encode(session_id))
    return msgspec.json.encode(fields)


def _fields(line: bytes) -> dict[str, msgspec.Raw]:
    if nests_deeper(line, MAX_DOCUMENT_DEPTH):
        raise InvalidEventError(f"the record is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
    try:
        return _DECODE_RAW(line)
    except ValueError as error:
        raise InvalidEventError(f"expected a record as JSON: {error}") from None


def size_of(message: Message) -> int:
    """Return the size in bytes of a message as JSON in its record."""
    blocks = [dump_block(block) for block in message.blocks]
    try:
        return len(msgspec.json.encode(blocks))
    except UnicodeEncodeError:  # lone surrogates
        return len(msgspec.json.encode(to_json(blocks, levels=MAX_DOCUMENT_DEPTH)))

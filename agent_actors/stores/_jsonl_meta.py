"""The `meta.json` of a session in a `JsonlStore`, and the copies of damaged files.

If `meta.json` is missing or damaged, only the metadata is lost: the session's id and creation time
are in its records too. A damaged `meta.json` is copied before it is replaced.
"""

import logging
import os
import re
from contextlib import suppress
from typing import Final, cast

import msgspec

from agent_actors.domain.json import JsonObject
from agent_actors.stores.disk.append_batch import merged
from agent_actors.stores.disk.safe_files import read_file, replace_file

EVENTS: Final = "events.jsonl"
META: Final = "meta.json"
# The names of copies of damaged files, which are made before a repair.
_BACKUP: Final = re.compile(r"(?:events\.jsonl|meta\.json)\.damaged-([0-9]{1,9})(?:\.new)?")

_LOG: Final = logging.getLogger(__name__)


class Meta(msgspec.Struct):
    """The fields that are read from `meta.json`; updates preserve all other fields."""

    session_id: str
    created_at: float
    metadata: dict[str, object] = msgspec.field(default_factory=dict[str, object])


class FirstRecord(msgspec.Struct):
    """The fields that are read from a session's first record if `meta.json` is damaged."""

    session_id: str = ""
    ts: float = 0.0


_META: Final = msgspec.json.Decoder(Meta)
_FIRST: Final = msgspec.json.Decoder(FirstRecord)


def meta_of(text: bytes) -> Meta | None:
    """Decode a `meta.json`. Return None if it is empty, not JSON or has fields of other types."""
    try:
        return _META.decode(text)
    except (ValueError, RecursionError):
        return None


def first_record(found: int) -> FirstRecord:
    """Return the id and time of the first readable record in a session's directory."""
    for line in (read_file(EVENTS, found) or b"").split(b"\n")[:-1]:
        with suppress(ValueError, RecursionError):
            return _FIRST.decode(line)
    return FirstRecord()


def new_meta(session_id: str, created_at: float) -> JsonObject:
    """Return the content for a new `meta.json`."""
    return {"session_id": session_id, "created_at": created_at, "metadata": {}}


def indented(value: JsonObject) -> bytes:
    """Encode a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def note(found: int, session_id: str, changes: JsonObject, *, sync: bool) -> bytes:
    """Update metadata keys in the `meta.json` in a directory.

    Returns:
        The previous content or, if there was none or it was damaged, the content of a new file.
    """
    before = read_file(META, found)
    meta = None if before is None else meta_of(before)
    if before is None or meta is None:
        if before is not None:
            # The old metadata cannot be decoded, so keep its bytes in a copy.
            replace_file(backup_name(META, found), found, before, sync=True)
            _LOG.warning("session %r: replaced the damaged %s and kept a copy", session_id, META)
        before = indented(new_meta(session_id, first_record(found).ts))
        meta = _META.decode(before)
    raw = cast(JsonObject, msgspec.json.decode(before))  # including unknown fields
    raw["metadata"] = merged(cast(JsonObject, meta.metadata), changes)
    replace_file(META, found, indented(raw), sync=sync)
    return before


def backups_in(found: int) -> list[str]:
    """Return the names of the copies of damaged files in a session's directory."""
    return [name for name in os.listdir(found) if _BACKUP.fullmatch(name)]


def backup_name(name: str, found: int) -> str:
    """Return an unused name for a copy of a damaged file."""
    numbers = [int(match[1]) for match in map(_BACKUP.fullmatch, backups_in(found)) if match]
    return f"{name}.damaged-{max(numbers, default=0) + 1}"

"""What a JsonlStore notes of a session in `meta.json`, and the copies of its damaged files.

A `meta.json` that is missing or damaged costs what was noted, and not the session: its id and its
time are in the records too. A damaged one is copied before it is replaced.
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
# Files as they were before they were repaired or replaced.
_BACKUP: Final = re.compile(r"(?:events\.jsonl|meta\.json)\.damaged-([0-9]{1,9})(?:\.new)?")

_LOG: Final = logging.getLogger("agent_actors.stores")


class Meta(msgspec.Struct):
    """What is read of `meta.json`; other keys of it stay where they are."""

    session_id: str
    created_at: float
    metadata: dict[str, object] = msgspec.field(default_factory=dict[str, object])


class FirstRecord(msgspec.Struct):
    """What is read of a session's first record where `meta.json` is damaged."""

    session_id: str = ""
    ts: float = 0.0


_META: Final = msgspec.json.Decoder(Meta)
_FIRST: Final = msgspec.json.Decoder(FirstRecord)


def meta_of(text: bytes) -> Meta | None:
    """What a `meta.json` says; None if it is damaged: empty, not JSON, or of other types."""
    try:
        return _META.decode(text)
    except (ValueError, RecursionError):
        return None


def first_record(found: int) -> FirstRecord:
    """What the first readable record in a session's directory says of it."""
    for line in (read_file(EVENTS, found) or b"").split(b"\n")[:-1]:
        with suppress(ValueError, RecursionError):
            return _FIRST.decode(line)
    return FirstRecord()


def new_meta(session_id: str, created_at: float) -> JsonObject:
    """The content of a new `meta.json`."""
    return {"session_id": session_id, "created_at": created_at, "metadata": {}}


def indented(value: JsonObject) -> bytes:
    """JSON for a person to read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def note(found: int, session_id: str, changes: JsonObject, *, sync: bool) -> bytes:
    """Note keys in the `meta.json` of a directory; the content before, or a new one."""
    before = read_file(META, found)
    meta = None if before is None else meta_of(before)
    if before is None or meta is None:
        if before is not None:
            # What was noted is lost with it; the bytes stay.
            replace_file(backup_name(META, found), found, before, sync=True)
            _LOG.warning("session %r: its damaged %s is replaced", session_id, META)
        before = indented(new_meta(session_id, first_record(found).ts))
        meta = _META.decode(before)
    raw = cast(JsonObject, msgspec.json.decode(before))  # with keys that are not ours
    raw["metadata"] = merged(cast(JsonObject, meta.metadata), changes)
    replace_file(META, found, indented(raw), sync=sync)
    return before


def backups_in(found: int) -> list[str]:
    """The copies of damaged files in a session's directory."""
    return [name for name in os.listdir(found) if _BACKUP.fullmatch(name)]


def backup_name(name: str, found: int) -> str:
    """The name for the copy of a damaged file, which no file in the directory has."""
    numbers = [int(match[1]) for match in map(_BACKUP.fullmatch, backups_in(found)) if match]
    return f"{name}.damaged-{max(numbers, default=0) + 1}"

"""Sessions from outside: their ids, and what is known of them without reading their records.

What a session is about (`metadata`) belongs to whoever runs it; the runtime writes `cwd`, `model`
and the like, and a caller adds keys of its own. How it is kept is a matter of `stores/`.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import Todo, UnreadableEvent
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.usage import Usage

# Ids are written into messages, file names and keys of caches: longer ones are some mistake.
MAX_SESSION_ID: Final = 256

# Control characters, which terminals and files trip over, and halves of characters, which no UTF-8
# can carry.
_NEVER: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# What a listing can ask for: metadata is compared by its JSON, so 1, 1.0 and True differ.
JsonScalar: TypeAlias = str | int | float | bool | None

# Metadata keys that the runtime sets: of the session of a nested run, and of a fork.
PARENT_SESSION: Final = "parent_session_id"
PARENT_CALL: Final = "parent_tool_use_id"
FORKED_FROM: Final = "forked_from"
FORKED_AT: Final = "forked_at_seq"

# Newest first, by the time of the first or of the last record.
SessionOrder: TypeAlias = Literal["created", "updated"]


def find_session_id_error(session_id: object) -> str | None:
    """Why this cannot name a session; None if it can.

    Any text of 1 to 256 characters will do, `../x`, `CON` and `Ä` included: stores see to it that
    no id is a path. Control characters and lone surrogates will not.
    """
    if not isinstance(session_id, str):
        return f"a session id is text; got {type(session_id).__name__}"
    if not session_id:
        return "a session id must not be empty"
    if len(session_id) > MAX_SESSION_ID:
        return f"a session id has at most {MAX_SESSION_ID} characters; got {len(session_id)}"
    found = _NEVER.search(session_id)
    if found is not None:
        return f"a session id cannot hold {found.group()!r} (at {found.start()})"
    return None


@attrs.frozen
class SessionInfo:
    """A session as a listing shows it.

    Attributes:
        session_id: The session.
        created_at: Time of its first record, in seconds since the epoch.
        updated_at: Time of its last record.
        last_seq: `seq` of its last record, which is how many it has.
        metadata: What was noted of it; a copy.
    """

    session_id: str
    created_at: float
    updated_at: float
    last_seq: int
    metadata: Mapping[str, JsonValue] = attrs.field(factory=dict[str, JsonValue])


@attrs.frozen
class SessionPage:
    """A page of a listing.

    Attributes:
        sessions: The newest first.
        next: Where the next page begins, for `after`; None if there is none.
    """

    sessions: tuple[SessionInfo, ...]
    next: str | None = None


@attrs.frozen
class SessionSnapshot:
    """What a session's records add up to.

    Attributes:
        session_id: The session.
        messages: The conversation, always valid.
        todos: What there is to do.
        files: The texts of its files, by path.
        skills: The skills in force.
        metadata: What was noted of it.
        usage: Tokens of all its model calls.
        requests: Requests that they took.
        last_seq: `seq` of its last record.
        open_calls: Ids of the calls without a result, which the next run closes.
        questions: Ids of the questions that it waits with.
        external_calls: The calls that it left to its caller to carry out.
        unreadable: The records that are left out, since they cannot be decoded.
    """

    session_id: str
    messages: Messages
    todos: tuple[Todo, ...]
    files: Mapping[str, str]
    skills: tuple[str, ...]
    metadata: Mapping[str, JsonValue]
    usage: Usage
    requests: int
    last_seq: int
    open_calls: tuple[str, ...]
    questions: tuple[str, ...]
    external_calls: tuple[ToolUseBlock, ...] = ()
    unreadable: tuple[UnreadableEvent, ...] = ()

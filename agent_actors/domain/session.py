"""Session ids, and information about sessions that does not require reading their records.

A session's `metadata` is for callers. The runtime writes keys such as `cwd` and `model`; callers
may add their own. `stores/` implements the storage.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import Todo, UnreadableEvent
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.run import Question
from agent_actors.domain.usage import Usage
from agent_actors.domain.workspace.background import BackgroundTask

# Ids appear in messages, file names and cache keys. A longer id is probably a mistake.
MAX_SESSION_ID: Final = 256

# Control characters, which break terminals and files, and lone surrogates, which UTF-8 cannot
# encode.
_NEVER: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

# Metadata values that a listing can filter by. They are compared as JSON, so 1, 1.0 and True
# differ.
JsonScalar: TypeAlias = str | int | float | bool | None

# Metadata keys that the runtime sets on the sessions of nested runs and on forks.
PARENT_SESSION: Final = "parent_session_id"
PARENT_CALL: Final = "parent_tool_use_id"
FORKED_FROM: Final = "forked_from"
FORKED_AT: Final = "forked_at_seq"

# How many seconds the clock may be ahead of the newest record when old sessions are deleted.
CLOCK_TOLERANCE: Final = 86_400.0

# The time to sort by, newest first: that of the first record or that of the last record.
SessionOrder: TypeAlias = Literal["created", "updated"]


def find_session_id_error(session_id: object) -> str | None:
    """Return the reason why this value is not a valid session id; None if it is valid.

    Any text of 1 to 256 characters without control characters and lone surrogates is valid. This
    includes `../x`, `CON` and `Ä`, because stores never use an id as a path.
    """
    if not isinstance(session_id, str):
        return f"a session id must be text; got {type(session_id).__name__}"
    if not session_id:
        return "a session id must not be empty"
    if len(session_id) > MAX_SESSION_ID:
        return f"a session id has at most {MAX_SESSION_ID} characters; got {len(session_id)}"
    found = _NEVER.search(session_id)
    if found is not None:
        return f"a session id cannot contain {found.group()!r} (at {found.start()})"
    return None


@attrs.frozen
class SessionInfo:
    """A session in a listing.

    Attributes:
        session_id: The session.
        created_at: Time of the first record, in seconds since the epoch.
        updated_at: Time of the last record, in seconds since the epoch.
        last_seq: `seq` of the last record, which is also the number of records.
        metadata: A copy of the session's metadata.
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
        sessions: The sessions, newest first.
        next: The value to pass as `after` for the next page; None if this is the last page.
    """

    sessions: tuple[SessionInfo, ...]
    next: str | None = None


@attrs.frozen
class SessionSnapshot:
    """The state of a session, computed from its records.

    Attributes:
        session_id: The session.
        messages: The conversation, which is always valid.
        todos: The task list.
        files: The texts of the session's files, by path.
        skills: Names of the active skills.
        metadata: The session's metadata.
        usage: Tokens of all model calls.
        requests: Number of requests of all model calls.
        last_seq: `seq` of the last record.
        open_calls: Ids of the tool calls without a result; the next run closes these calls.
        questions: The open questions; pass the answers to `runtime.resume`.
        external_calls: The open tool calls that the caller has to execute.
        unreadable: The records that were skipped because they cannot be decoded.
        background: The background commands of the session, oldest first: those that are running,
            and the newest of those that have ended.
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
    questions: tuple[Question, ...]
    external_calls: tuple[ToolUseBlock, ...] = ()
    unreadable: tuple[UnreadableEvent, ...] = ()
    background: tuple[BackgroundTask, ...] = ()


@attrs.frozen
class SessionStats:
    """The usage of a session, computed from its records.

    Attributes:
        session_id: The session.
        usage: Tokens of all model calls.
        requests: Number of requests of all model calls, including failed attempts.
        tool_calls: Number of tool calls.
        cost: Cost of the model calls that were made with prices; 0 if there are none.
        records: Number of records.
    """

    session_id: str
    usage: Usage
    requests: int
    tool_calls: int
    cost: float
    records: int


@attrs.frozen
class Damage:
    """A problem in a session's stored log.

    Attributes:
        reason: A description of the problem.
        seq: The `seq` of the affected record, or of the first of several; 0 for the session's
            metadata.
        offset: The position of the damaged bytes, counted from the start of the log file. None if
            the store has no file per session, or if no bytes are affected.
        lost: The number of records that are missing completely. If it is not 0, the session cannot
            be read.
    """

    reason: str
    seq: int
    offset: int | None = None
    lost: int = 0

    def __str__(self) -> str:
        where = "" if self.offset is None else f" (at byte {self.offset})"
        return f"record {self.seq}{where}: {self.reason}" if self.seq else self.reason


def trusted_now(now: float, newest: Sequence[SessionInfo]) -> float:
    """Return the time to use as "now" when computing the age of sessions.

    If the clock is wrong and far ahead, every session in a store would seem old. The returned time
    is therefore at most one day after the newest record.

    Args:
        now: The clock's time, in seconds since the epoch.
        newest: The session with the newest record in the store; empty if there are no sessions.
    """
    return min([now, *(info.updated_at + CLOCK_TOLERANCE for info in newest)])

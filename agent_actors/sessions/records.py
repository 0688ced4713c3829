"""The records that precede a run, and records from callers, tools and hooks. Pure.

Tool calls that an earlier run left open are closed, because a new user message will follow them. If
a caller replaces the conversation, a `session.rewind` to the beginning precedes the new one.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from agent_actors.codec.events import checked_fields
from agent_actors.domain.blocks import (
    AssistantBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.events import (
    AssistantMessage,
    Event,
    EventBuilder,
    EventScope,
    FileChanged,
    Notification,
    SessionRewind,
    SkillActivated,
    TodosChanged,
    ToolResult,
    UserMessage,
)
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import ConfigError, InvalidEventError, MessageError
from agent_actors.sessions import REPORTED_UNREADABLE, UNFINISHED, SessionState

if TYPE_CHECKING:
    from agent_actors.domain.model import FinishReason

NO_RESULT: Final = "no result was given for this call before the conversation continued"

# The types of events that callers, tools and hooks may record. Only runs record the others.
RECORDABLE: Final = (TodosChanged, FileChanged, SkillActivated, Notification)

_NONE_KNOWN: Final[Mapping[str, EventBuilder]] = MappingProxyType({})
_NOWHERE: Final = EventScope("", "", "")


def validated(builder: EventBuilder) -> EventBuilder:
    """Return a builder for the event as it will be decoded, independent of the caller's objects.

    Untyped code may put any value into an event. Because an event that cannot be decoded would make
    its session unreadable, it is rejected before it is recorded.

    Raises:
        InvalidEventError: The event could not be decoded. The message names the field and the
            reason.
    """
    try:
        event = builder(_NOWHERE, "", 0.0, seq=None)
    except TypeError as error:
        raise InvalidEventError(
            "expected an event without its header, such as functools.partial(Notification, "
            f"text=...); got {builder!r:.80}, and {error}"
        ) from error
    if not isinstance(cast(object, event), Event):
        raise InvalidEventError(
            f"expected a function that returns an event; it returned {event!r:.80}"
        )
    cls, fields = checked_fields(event)
    return partial(cls, **fields)


def recordable(builder: EventBuilder) -> EventBuilder:
    """Return a validated builder for an event that a caller, a tool or a hook may record.

    Raises:
        ConfigError: Only runs may record events of this type.
        InvalidEventError: See `validated`.
    """
    checked = validated(builder)
    event = checked(_NOWHERE, "", 0.0, seq=None)
    if not isinstance(event, RECORDABLE):
        raise ConfigError(
            "only todos, files, skills and notifications may be recorded; got "
            f"{type(event).__name__}"
        )
    return checked


def records_before_run(
    state: SessionState,
    replacement: Messages | None,
    *,
    from_client: bool,
    resumes: bool,
    known: Mapping[str, EventBuilder] = _NONE_KNOWN,
) -> list[EventBuilder]:
    """Return the records to write before the records of a run.

    Calls that have no result, for example after a crash, are closed. The calls of a suspended
    session stay open.

    Args:
        state: The state of the session.
        replacement: A conversation that replaces the session's history; None to keep the history.
        from_client: True if `Client` or `query()` started the run.
        resumes: True if the run resumes a suspended session.
        known: The records with results that are known for open calls, by call id.

    Raises:
        MessageError: The replacement contains a message that a session cannot hold.
        InvalidEventError: The replacement contains a message that could not be decoded.
    """
    if replacement is None and (state.is_suspended or resumes):
        return []
    return opening(state, replacement, NO_RESULT if from_client else UNFINISHED, known)


def opening(
    state: SessionState,
    replaces: Messages | None,
    why: str = NO_RESULT,
    known: Mapping[str, EventBuilder] = _NONE_KNOWN,
) -> list[EventBuilder]:
    """Return the records that replace the history, if requested, and close open calls.

    Args:
        state: The state of the session.
        replaces: A conversation that replaces the session's history; None to keep the history.
        why: The content of the synthetic results for open calls, which the model receives.
        known: The records with results that are known for open calls, by call id.

    Raises:
        MessageError: `replaces` contains a message that a session cannot hold; see `as_records`.
        InvalidEventError: `replaces` contains a message that could not be decoded.
    """
    drafts: list[EventBuilder] = []
    if replaces is not None:
        drafts = [validated(draft) for draft in replacing(state, replaces)]
        state = seen_after(replaces)
    return [*drafts, *(known.get(call.id) or closing(call, why) for call in state.open_calls)]


def report_of(state: SessionState) -> list[EventBuilder]:
    """Return a notification about unreadable records that have not been reported yet."""
    if not state.unreported:
        return []
    seqs = state.unreported
    reasons = {record.seq: record.reason for record in state.unreadable}
    which = (
        f"record {seqs[0]}" if len(seqs) == 1 else f"{len(seqs)} records, the first is {seqs[0]}"
    )
    return [
        partial(
            Notification,
            text=f"the session continues without unreadable records ({which}): {reasons[seqs[0]]}",
            data={REPORTED_UNREADABLE: seqs},
        )
    ]


def replacing(state: SessionState, messages: Messages) -> list[EventBuilder]:
    """Return the records that replace a session's conversation with these messages.

    Raises:
        MessageError: The messages contain a system message or an empty user message.
    """
    back: list[EventBuilder] = [partial(SessionRewind, to_seq=0)] if state.last_seq else []
    return [*back, *as_records(messages)]


def seen_after(messages: Messages) -> SessionState:
    """Return the state of a session that contains these messages and nothing else.

    Raises:
        MessageError: The messages contain a system message or an empty user message.
    """
    state = SessionState()
    for seq, draft in enumerate(as_records(messages), start=1):
        state.apply(draft(_NOWHERE, "", 0.0, seq=seq))
    return state


def as_records(messages: Messages) -> Iterator[EventBuilder]:
    """Yield the records that represent these messages.

    Raises:
        MessageError: The messages contain a system message or an empty user message.
    """
    for index, message in enumerate(messages):
        match message.role:
            case "user":
                message.validate(index=index)
                alone = len(message.blocks) == 1 and isinstance(message.blocks[0], TextBlock)
                blocks = () if alone else message.blocks
                yield partial(UserMessage, text=message.content, blocks=blocks)
            case "assistant":
                reason: FinishReason = "refusal" if message.refused else "stop"
                yield partial(AssistantMessage, blocks=_said(message), finish_reason=reason)
            case "tool":
                yield from (_result(b) for b in message.blocks if isinstance(b, ToolResultBlock))
            case _:
                raise MessageError(
                    f"message {index}: a {message.role} message is allowed only at the "
                    "beginning; a session does not store it, because it is in the agent's options",
                    index=index,
                )


def _said(message: Message) -> tuple[AssistantBlock, ...]:
    kinds = (TextBlock, ThinkingBlock, ToolUseBlock, ImageBlock, OpaqueBlock)
    return tuple(block for block in message.blocks if isinstance(block, kinds))


def _result(block: ToolResultBlock) -> EventBuilder:
    return partial(
        ToolResult,
        tool_use_id=block.tool_use_id,
        name=block.name,
        content=block.content,
        is_error=block.is_error,
    )


def closing(call: ToolUseBlock, why: str) -> EventBuilder:
    """Return the record with a synthetic error result for an open call."""
    return partial(
        ToolResult,
        tool_use_id=call.id,
        name=call.name,
        content=why,
        is_error=True,
        synthetic=True,
    )

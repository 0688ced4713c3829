"""Records that precede those of a run, and records that callers, tools and hooks make. Pure.

Calls that an earlier run left open are closed, since a new user message follows them. If a caller
replaces the conversation, a `session.rewind` to the beginning precedes the new conversation.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from agent_actors.codec.events import checked_fields
from agent_actors.domain.blocks import (
    AssistantBlock,
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

NO_RESULT: Final = "no result was given for this call before the conversation went on"

# The types of events that callers, tools and hooks may record; a run records the others.
RECORDABLE: Final = (TodosChanged, FileChanged, SkillActivated, Notification)

_NOWHERE: Final = EventScope("", "", "")


def validated(builder: EventBuilder) -> EventBuilder:
    """Return a builder of the event as it will be decoded, independent of the caller's objects.

    Untyped code may pass any value in an event. An event that cannot be decoded would make its
    session unreadable, so it is refused before it is recorded.

    Raises:
        InvalidEventError: The event could not be decoded; names the field and the reason.
    """
    try:
        event = builder(_NOWHERE, "", 0.0, seq=None)
    except TypeError as error:
        raise InvalidEventError(
            "expected an event without its header, such as functools.partial(Notification, "
            f"text=...); got {builder!r:.80}, and {error}"
        ) from error
    if not isinstance(cast(object, event), Event):
        raise InvalidEventError(f"expected a draft that makes an event; it made {event!r:.80}")
    cls, fields = checked_fields(event)
    return partial(cls, **fields)


def recordable(builder: EventBuilder) -> EventBuilder:
    """Return a validated builder of an event that a caller, a tool or a hook may record.

    Raises:
        ConfigError: Events of this type are recorded by runs only.
        InvalidEventError: See `validated`.
    """
    checked = validated(builder)
    event = checked(_NOWHERE, "", 0.0, seq=None)
    if not isinstance(event, RECORDABLE):
        raise ConfigError(
            "a caller may record todos, files, skills and notifications; got "
            f"{type(event).__name__}"
        )
    return checked


def records_before_run(
    state: SessionState, replacement: Messages | None, *, from_client: bool, resumes: bool
) -> list[EventBuilder]:
    """The records that precede those of a run.

    Calls without a result, as a crash leaves them, are closed. The calls of a suspended session
    stay open.

    Args:
        state: The session.
        replacement: A conversation that replaces the session's history; None: the history stays.
        from_client: Whether `Client` or `query()` started the run.
        resumes: Whether the run resumes a suspended session.

    Raises:
        MessageError: The replacement contains a message that a session cannot hold.
    """
    if replacement is None and (state.is_suspended or resumes):
        return []
    return opening(state, replacement, NO_RESULT if from_client else UNFINISHED)


def opening(
    state: SessionState, replaces: Messages | None, why: str = NO_RESULT
) -> list[EventBuilder]:
    """The records that come before a run's own.

    Args:
        state: The session as it stands.
        replaces: The conversation that takes its place; None: it stays.
        why: What the model is told of a call that is closed.

    Raises:
        MessageError: `replaces` holds what no session can, here and below.
        InvalidEventError: It holds what could not be read back.
    """
    drafts: list[EventBuilder] = []
    if replaces is not None:
        drafts = [validated(draft) for draft in replacing(state, replaces)]
        state = seen_after(replaces)
    return [*drafts, *(closing(call, why) for call in state.open_calls)]


def report_of(state: SessionState) -> list[EventBuilder]:
    """The notification of records that cannot be read and were not reported yet; or none."""
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
            text=f"the session goes on without what cannot be read ({which}): {reasons[seqs[0]]}",
            data={REPORTED_UNREADABLE: seqs},
        )
    ]


def replacing(state: SessionState, messages: Messages) -> list[EventBuilder]:
    """The records that put this conversation in the place of the session's.

    Raises:
        MessageError: It holds a system message, or an empty one of the user's.
    """
    back: list[EventBuilder] = [partial(SessionRewind, to_seq=0)] if state.last_seq else []
    return [*back, *as_records(messages)]


def seen_after(messages: Messages) -> SessionState:
    """A session that holds this conversation and nothing else.

    Raises:
        MessageError: It holds a system message, or an empty one of the user's.
    """
    state = SessionState()
    for seq, draft in enumerate(as_records(messages), start=1):
        state.apply(draft(_NOWHERE, "", 0.0, seq=seq))
    return state


def as_records(messages: Messages) -> Iterator[EventBuilder]:
    """The records that say what this conversation says.

    Raises:
        MessageError: It holds a system message, or an empty one of the user's.
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
                    f"message {index}: a {message.role} message may stand at the head only; a "
                    "session keeps none, it is sent from the agent's options",
                    index=index,
                )


def _said(message: Message) -> tuple[AssistantBlock, ...]:
    kinds = (TextBlock, ThinkingBlock, ToolUseBlock, OpaqueBlock)
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
    """The record that answers an open call in its caller's place."""
    return partial(
        ToolResult,
        tool_use_id=call.id,
        name=call.name,
        content=why,
        is_error=True,
        synthetic=True,
    )

"""What is put on record before a run begins: how its session goes on from where it was left.

Pure. Calls that an earlier run left open are closed, since another word of the caller comes between
them and any result; a conversation that the caller put in the place of the session's is written
down after a record that takes the session back to its beginning.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

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
    EventBuilder,
    EventScope,
    Notification,
    SessionRewind,
    ToolResult,
    UserMessage,
)
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import MessageError
from agent_actors.run.spec import RunSpec
from agent_actors.runtime.sessions.transaction import validated
from agent_actors.sessions import REPORTED_UNREADABLE, UNFINISHED, SessionState

if TYPE_CHECKING:
    from agent_actors.domain.model import FinishReason

NO_RESULT: Final = "no result was given for this call before the conversation went on"

_NOWHERE: Final = EventScope("", "", "")


def opening_of(spec: RunSpec, state: SessionState) -> list[EventBuilder]:
    """The records that come before those of this run.

    Calls without a result, as a crash leaves them, are closed on record: what the fold would say of
    them each time is said once and for all. A session that waits for answers is left alone.

    Raises:
        MessageError: The conversation that the caller brought holds what no session can.
    """
    replaces = None if spec.face is None else spec.face.replaces
    if replaces is None and (state.is_suspended or spec.answers is not None):
        return []
    if spec.face is not None:
        return opening(state, replaces)
    return opening(state, None, UNFINISHED)


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

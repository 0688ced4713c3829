"""The two forms of messages that callers may pass: `Message` objects and OpenAI's dicts.

Reading returns one message per item, so that positions are the same in both forms. Items that are
kept are the caller's own objects: nothing is rebuilt, and unknown keys are not lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, cast

from agent_actors.codec.openai_messages import messages_from_openai
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import MessageError

AnyMessage: TypeAlias = Message | Mapping[str, object]
"""A `Message`, or a dict in the format of OpenAI's chat completions."""

MessageT = TypeVar("MessageT", bound=AnyMessage)

_SHOWN: Final = 80  # characters of an invalid message in an error


def as_messages(messages: Iterable[AnyMessage]) -> Messages:
    """Convert the items to messages.

    Raises:
        MessageError: An item is neither a message nor a dict that represents a message. The error
            names its position.
    """
    if isinstance(messages, Messages):
        return messages
    return Messages(_read(index, message) for index, message in enumerate(messages))


def _read(index: int, message: object) -> Message:
    if isinstance(message, Message):
        return message
    if not isinstance(message, Mapping):
        raise MessageError(
            f"message {index}: expected a Message or a dict with role and content; "
            f"got {repr(message)[:_SHOWN]}",
            index=index,
        )
    try:
        return messages_from_openai([cast(Mapping[str, object], message)])[0]
    except MessageError as error:
        reason = str(error).removeprefix("message 0: ")
        raise MessageError(f"message {index}: {reason}", index=index) from None


def picked(messages: Sequence[MessageT], positions: Iterable[int]) -> list[MessageT]:
    """Return the items at these positions, as the caller's own objects."""
    return [messages[at] for at in positions]

"""The two forms in which a caller has messages: values of ours, and the wire's dicts.

Owns the reading of either, one message for each that is given, so that a position in what is read
is a position in what was given. What is kept is picked from the caller's own objects: nothing is
rebuilt, and no key that is unknown here is lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, cast

from agent_actors.codec.openai_messages import messages_from_openai
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import MessageError

AnyMessage: TypeAlias = Message | Mapping[str, object]
"""A message of ours, or a dict as OpenAI's chat completions have it."""

MessageT = TypeVar("MessageT", bound=AnyMessage)

_SHOWN: Final = 80  # characters of what is no message, in an error


def as_messages(messages: Iterable[AnyMessage]) -> Messages:
    """The messages as ours.

    Raises:
        MessageError: One is neither a message nor a dict of one; names its position.
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
        told = str(error).removeprefix("message 0: ")
        raise MessageError(f"message {index}: {told}", index=index) from None


def picked(messages: Sequence[MessageT], positions: Iterable[int]) -> list[MessageT]:
    """Those at these positions, the caller's own objects."""
    return [messages[at] for at in positions]

"""Trims conversations to a number of messages, or to a number of tokens.

`context/truncation.py` defines where a conversation may be truncated.
"""

from collections.abc import Sequence
from typing import overload

import attrs

from agent_actors.context.message_formats import MessageT, as_messages, picked
from agent_actors.context.truncation import affordable_messages, last_messages
from agent_actors.domain.messages import Messages
from agent_actors.errors import ConfigError
from agent_actors.protocol.token_estimate import TokenCounter, message_tokens, naive_tokens


# `Messages` is also a sequence of messages, so its overload must come first.
@overload
def truncate_messages(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    messages: Messages, keep: int = 10, preserve_system: bool = True
) -> Messages: ...
@overload
def truncate_messages(
    messages: Sequence[MessageT], keep: int = 10, preserve_system: bool = True
) -> list[MessageT]: ...
def truncate_messages(
    messages: Messages | Sequence[MessageT], keep: int = 10, preserve_system: bool = True
) -> Messages | list[MessageT]:
    """Return the last messages, preceded by the system messages.

    A tool call and its result are never separated: if the kept part would begin between them,
    everything from the tool call on is kept. The returned conversation may therefore have a few
    more messages than requested.

    Args:
        messages: `Messages`, or a list of `Message` or of OpenAI's dicts; not changed.
        keep: Number of messages to keep, at least 0, not counting system messages.
        preserve_system: True to keep the system messages at the beginning. With `keep=0`, only they
            are kept.

    Returns:
        A new list of the same objects, or `Messages` if `messages` is `Messages`.

    Raises:
        ConfigError: `keep` is not an integer, or is below 0.
        MessageError: An item is not a message. The error names its position.
    """
    _check_whole("keep", keep)
    if keep < 0:
        raise ConfigError(f"keep must not be negative; got {keep}")
    kept = last_messages(as_messages(messages), keep, preserve_system=preserve_system)
    if isinstance(messages, Messages):
        return Messages(picked(messages, kept))
    return picked(messages, kept)


@attrs.frozen
class Trimmer:
    """Trims conversations to a number of tokens, keeping the newest messages.

    The trimmer works backwards from the end and stops before the first message that does not fit;
    it skips no message in between. A tool call and its result are kept or removed together.

    Attributes:
        max_tokens: Maximum number of tokens to keep; if it is 0 or less, nothing is kept.
        counter: A function that counts the tokens of a text. None means `naive_tokens`, which tends
            to count too many.
        preserve_system: True to also keep the system messages at the beginning, within
            `max_tokens`. If they alone exceed `max_tokens`, nothing is kept.

    Raises:
        ConfigError: `max_tokens` is not an integer, or the counter is not a function.
    """

    max_tokens: int
    counter: TokenCounter | None = None
    preserve_system: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _check_whole("max_tokens", self.max_tokens)
        if self.counter is not None and not callable(self.counter):
            raise ConfigError(
                "counter must be a function that counts the tokens of a text; got "
                f"{self.counter!r:.80}"
            )

    @overload
    def trim(self, messages: Messages) -> Messages: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    @overload
    def trim(self, messages: Sequence[MessageT]) -> list[MessageT]: ...
    def trim(self, messages: Messages | Sequence[MessageT]) -> Messages | list[MessageT]:
        """Return the longest part at the end of the conversation that fits.

        Args:
            messages: `Messages`, or a list of `Message` or of OpenAI's dicts; not changed.

        Returns:
            A new list of the same objects, or `Messages` if `messages` is `Messages`.

        Raises:
            MessageError: An item is not a message. The error names its position.
            ConfigError: The counter does not return an integer of at least 0.
        """
        counter = naive_tokens if self.counter is None else self.counter
        kept = affordable_messages(
            as_messages(messages),
            self.max_tokens,
            lambda message: message_tokens(message, counter),
            preserve_system=self.preserve_system,
        )
        if isinstance(messages, Messages):
            return Messages(picked(messages, kept))
        return picked(messages, kept)


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number; got {value!r:.80}")

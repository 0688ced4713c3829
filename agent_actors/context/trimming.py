"""Conversations cut to size: by a number of messages, or by a budget of tokens.

Owns the two ways of asking; where a conversation may be cut stands in `context/truncation.py`.
"""

from collections.abc import Sequence
from typing import overload

import attrs

from agent_actors.context.message_formats import MessageT, as_messages, picked
from agent_actors.context.truncation import affordable_messages, last_messages
from agent_actors.domain.messages import Messages
from agent_actors.errors import ConfigError
from agent_actors.protocol.token_estimate import TokenCounter, message_tokens, naive_tokens


# `Messages` is a sequence of messages too: the first that fits counts.
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
    """The last messages, and the system's.

    A tool use and its result are never parted: where the cut would fall between them, all from the
    tool use on is kept, so that a few more may remain than were asked for.

    Args:
        messages: `Messages`, or a list of `Message` or of OpenAI's dicts; it is not changed.
        keep: How many to keep, 0 at least, not counting the system's.
        preserve_system: Keep the system messages that stand at the head. With `keep=0` these are
            all that is left.

    Returns:
        A new list of the same objects, or `Messages` if such were given.

    Raises:
        ConfigError: `keep` is no whole number, or below 0.
        MessageError: One is no message; names its position.
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
    """Cuts conversations to a budget of tokens, the newest messages first.

    It walks back from the end and stops before the first message that does not fit; nothing is left
    out in between. A tool use and its result stay or go together.

    Attributes:
        max_tokens: The most tokens that are kept; nothing is at 0 or below.
        counter: Counts the tokens of a text; None: `naive_tokens`, which errs on the high side.
        preserve_system: Keep the system messages at the head as well, within the budget; where they
            alone exceed it, nothing is kept.

    Raises:
        ConfigError: `max_tokens` is no whole number, or the counter no function.
    """

    max_tokens: int
    counter: TokenCounter | None = None
    preserve_system: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _check_whole("max_tokens", self.max_tokens)
        if self.counter is not None and not callable(self.counter):
            raise ConfigError(
                f"counter must be a function from a text to its tokens; got {self.counter!r:.80}"
            )

    @overload
    def trim(self, messages: Messages) -> Messages: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    @overload
    def trim(self, messages: Sequence[MessageT]) -> list[MessageT]: ...
    def trim(self, messages: Messages | Sequence[MessageT]) -> Messages | list[MessageT]:
        """The longest end of the conversation that fits.

        Args:
            messages: `Messages`, or a list of `Message` or of OpenAI's dicts; it is not changed.

        Returns:
            A new list of the same objects, or `Messages` if such were given.

        Raises:
            MessageError: One is no message; names its position.
            ConfigError: The counter gives no whole number, or one below 0.
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

"""A cache of a session's encoded messages, for the session's next turn.

Each turn sends the complete conversation, to which messages are only appended. Encoded messages and
token counts therefore stay valid for the next turn. The cache of an idle session is dropped.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import is_
from typing import Final, TypeVar, cast

import attrs

from agent_actors.domain.messages import Message

T = TypeVar("T")

# The number of messages from which on their values are kept. Keeping the values of a few messages
# costs more than computing them again.
_WORTH_KEEPING: Final = 4


@attrs.define(eq=False)
class _Kept:
    messages: list[Message] = attrs.field(factory=list[Message])
    values: list[object] = attrs.field(factory=list[object])


@attrs.define(eq=False)
class EncodedMessageCache:
    """A cache of one value per message, valid as long as messages are only appended."""

    _kept: dict[Hashable, _Kept] = attrs.field(factory=dict[Hashable, _Kept], init=False)

    def map(
        self, key: Hashable, messages: Iterable[Message], make: Callable[[Message], T]
    ) -> list[T]:
        """Return `make(message)` for every message, computing it only for new messages.

        Args:
            key: Identifies the kind of value and everything, apart from the message, that the value
                depends on.
            messages: The conversation. Cached values are replaced from the first message that is
                not identical to the cached one.
            make: Computes the value for one message, from that message only.
        """
        message_list = list(messages)
        kept = self._kept.get(key)
        if kept is None:
            if len(message_list) < _WORTH_KEEPING:
                return [make(message) for message in message_list]
            kept = self._kept[key] = _Kept()
        same = _same(kept.messages, message_list)
        kept.messages[same:] = message_list[same:]
        kept.values[same:] = [make(message) for message in message_list[same:]]
        return cast("list[T]", kept.values.copy())

    def forget(self) -> None:
        """Drop all cached values."""
        self._kept.clear()


def _same(before: list[Message], now: list[Message]) -> int:
    """Return how many messages at the beginning are identical."""
    if all(map(is_, before, now)):  # nearly always true, and fast: no Python code runs per message
        return min(len(before), len(now))
    return next(at for at, pair in enumerate(zip(before, now, strict=False)) if not is_(*pair))

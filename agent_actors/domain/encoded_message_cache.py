"""A cache of encoded messages of one session, for the next turn of that session.

Each turn sends the complete conversation, which only grows at its end. Encoded messages and token
counts therefore stay valid for the next turn. An idle session drops its cache.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import is_
from typing import TypeVar, cast

import attrs

from agent_actors.domain.messages import Message

T = TypeVar("T")


@attrs.define(eq=False)
class _Kept:
    messages: list[Message] = attrs.field(factory=list[Message])
    values: list[object] = attrs.field(factory=list[object])


@attrs.define(eq=False)
class EncodedMessageCache:
    """A cache of one value per message, for as long as the conversation only grows."""

    _kept: dict[Hashable, _Kept] = attrs.field(factory=dict[Hashable, _Kept], init=False)

    def map(
        self, key: Hashable, messages: Iterable[Message], make: Callable[[Message], T]
    ) -> list[T]:
        """Return `make(message)` for every message; computed only for new messages.

        Args:
            key: Identifies the kind of value and everything that it depends on, in addition to the
                message.
            messages: The conversation. From the first message on that is not identical to the
                cached one, all cached values are replaced.
            make: Computes the value of one message from that message only.
        """
        kept = self._kept.setdefault(key, _Kept())
        message_list = list(messages)
        same = _same(kept.messages, message_list)
        kept.messages[same:] = message_list[same:]
        kept.values[same:] = [make(message) for message in message_list[same:]]
        return cast("list[T]", kept.values.copy())

    def forget(self) -> None:
        """Drop all cached values."""
        self._kept.clear()


def _same(before: list[Message], now: list[Message]) -> int:
    """Return the number of identical messages at the beginning."""
    if all(map(is_, before, now)):  # nearly always true, and fast: no Python code runs per message
        return min(len(before), len(now))
    return next(at for at, pair in enumerate(zip(before, now, strict=False)) if not is_(*pair))

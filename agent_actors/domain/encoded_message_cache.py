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
        """`make(message)` of every message; made only of those that were not there before.

        Args:
            key: What is made, and everything beside the message that it depends on.
            messages: The conversation. Where it is another than the one before, message by message
                and by identity, what was kept from there on is forgotten.
            make: Makes the value of one message, of nothing else.
        """
        kept = self._kept.setdefault(key, _Kept())
        given = list(messages)
        same = _same(kept.messages, given)
        kept.messages[same:] = given[same:]
        kept.values[same:] = [make(message) for message in given[same:]]
        return cast("list[T]", kept.values.copy())

    def forget(self) -> None:
        """Keep nothing any more."""
        self._kept.clear()


def _same(before: list[Message], now: list[Message]) -> int:
    """How many messages at the beginning are the very same."""
    if all(map(is_, before, now)):  # nearly always, and long: told without a step of Python each
        return min(len(before), len(now))
    return next(at for at, pair in enumerate(zip(before, now, strict=False)) if not is_(*pair))

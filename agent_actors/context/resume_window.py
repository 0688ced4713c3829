"""Selects the part of a long session that is sent: the newest messages, within limits.

The stored session is not changed. The last user message and everything after it are always sent,
because a run needs its task and its own actions. Earlier messages are sent if they fit within the
limits too. A tool call is never separated from its result. The sent part begins with a user
message, as many endpoints require. If the part would begin within a long chain of tool calls, the
user message that began the chain is sent before the rest.
"""

import math
from collections.abc import Sequence
from typing import Final

import attrs

from agent_actors.codec.session_lines import size_of
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Message, Messages

# Default limits on the messages and on the bytes of their JSON: about half a million tokens, more
# than most models accept.
RESUME_MAX_EVENTS: Final = 1000
RESUME_MAX_BYTES: Final = 2_000_000

_SIZE: Final = "recall.size"


@attrs.frozen
class ResumeWindow:
    """Limits on the part of a session that a request sends; the system prompt does not count.

    Attributes:
        max_events: Maximum number of messages; `math.inf` means no limit.
        max_bytes: Maximum number of bytes of the messages as JSON; `math.inf` means no limit.
    """

    max_events: float = RESUME_MAX_EVENTS
    max_bytes: float = RESUME_MAX_BYTES

    def apply(self, messages: Messages, memo: EncodedMessageCache) -> Messages:
        """Return the part of this conversation to send in a request.

        Args:
            messages: The conversation, valid and without a system prompt.
            memo: A cache for the sizes of messages.

        Returns:
            The part to send; the same object if all of it is sent.
        """
        sizes: Sequence[int] = ()
        if not math.isinf(self.max_bytes):
            sizes = memo.map(_SIZE, messages, size_of)
        if len(messages) <= self.max_events and sum(sizes) <= self.max_bytes:
            return messages
        return Messages(self._kept(messages.as_tuple(), sizes or [0] * len(messages)))

    def _kept(self, messages: Sequence[Message], sizes: Sequence[int]) -> Sequence[Message]:
        last = len(messages)
        word = _word_before(messages, last)
        own = last if word is None else word
        size, start = sum(sizes[own:]), own
        while start and self._fits(last - start + 1, size + sizes[start - 1]):
            start -= 1
            size += sizes[start]
        before = _word_before(messages, start)
        while start < own:
            role = messages[start].role
            # Because the history is valid, only other results can come between a call and its
            # result.
            if role == "user" or (role != "tool" and before is None):
                break
            if role != "tool" and self._fits(last - start + 1, size + sizes[before or 0]):
                return (messages[before or 0], *messages[start:])
            size -= sizes[start]
            start += 1
        return messages[start:]

    def _fits(self, events: int, size: int) -> bool:
        return events <= self.max_events and size <= self.max_bytes


def _word_before(messages: Sequence[Message], end: int) -> int | None:
    return next((at for at in reversed(range(end)) if messages[at].role == "user"), None)

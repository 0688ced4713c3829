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
from agent_actors.domain.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Message, Messages

# Default limits on the messages and on the bytes of their JSON: about half a million tokens, more
# than most models accept.
RESUME_MAX_EVENTS: Final = 1000
RESUME_MAX_BYTES: Final = 2_000_000

_SIZE: Final = "recall.size"
# Up to this number of messages, an upper bound of the size is computed first, because it takes a
# tenth of the time of encoding a message. The sizes of longer conversations are cached.
_FEW: Final = 64
# The maximum size in JSON of a character, which may become `\\u0000`; of a number; and of the names
# and marks around the fields of a block.
_CHARACTER: Final = 6
_NUMBER: Final = 32
_AROUND: Final = 256


@attrs.frozen
class ResumeWindow:
    """Limits on the part of a session that a request sends; the system prompt does not count.

    Attributes:
        max_events: Maximum number of messages; `math.inf` means no limit.
        max_bytes: Maximum number of bytes of the messages as JSON; `math.inf` means no limit.
    """

    max_events: float = RESUME_MAX_EVENTS
    max_bytes: float = RESUME_MAX_BYTES

    def apply(self, messages: Messages, memo: EncodedMessageCache, *, head: int = 0) -> Messages:
        """Return the part of this conversation to send in a request.

        Args:
            messages: The conversation, valid and without a system prompt.
            memo: A cache for the sizes of messages.
            head: The number of messages at the beginning that are always sent.

        Returns:
            The part to send; the same object if all of it is sent.
        """
        if len(messages) <= min(_FEW, self.max_events) and self._fits_certainly(messages):
            return messages
        sizes: Sequence[int] = ()
        if not math.isinf(self.max_bytes):
            sizes = memo.map(_SIZE, messages, size_of)
        if len(messages) <= self.max_events and sum(sizes) <= self.max_bytes:
            return messages
        sizes = sizes or [0] * len(messages)
        first, rest = messages.as_tuple()[:head], messages.as_tuple()[head:]
        if head and _prompt_before(rest, len(rest)) is None:
            return messages  # the last user message is in the head
        left = ResumeWindow(self.max_events - head, self.max_bytes - sum(sizes[:head]))
        return Messages((*first, *left._kept(rest, sizes[head:])))

    def _fits_certainly(self, messages: Messages) -> bool:
        left = self.max_bytes
        for message in messages:
            for block in message.blocks:
                left -= _largest_size(block)
            left -= _AROUND
            if left < 0:
                return False
        return True

    def _kept(self, messages: Sequence[Message], sizes: Sequence[int]) -> Sequence[Message]:
        last = len(messages)
        word = _prompt_before(messages, last)
        own = last if word is None else word
        size, start = sum(sizes[own:]), own
        while start and self._fits(last - start + 1, size + sizes[start - 1]):
            start -= 1
            size += sizes[start]
        before = _prompt_before(messages, start)
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


def _largest_size(block: ContentBlock) -> float:
    """Return an upper bound of the size of a block as JSON; infinity if it must be measured."""
    if block.extra:
        return math.inf
    if type(block) is TextBlock:
        return _AROUND + _CHARACTER * (len(block.text) + len(block.origin))
    if type(block) is ToolResultBlock and type(block.content) is str:
        return _AROUND + _CHARACTER * (
            len(block.content) + len(block.tool_use_id) + len(block.name)
        )
    if type(block) is ToolUseBlock:
        characters = len(block.raw_arguments) + len(block.id) + len(block.name) + len(block.origin)
        size = 0.0
        for name, value in block.input.items():
            if type(name) is not str:  # providers of users may set anything
                return math.inf
            characters += len(name)
            size += _NUMBER
            if isinstance(value, str):
                characters += len(value)
            elif isinstance(value, int):
                size += value.bit_length()  # more than the number of digits
            elif value is not None and type(value) is not float:
                return math.inf
        return _AROUND + _CHARACTER * characters + size
    return math.inf


def _prompt_before(messages: Sequence[Message], end: int) -> int | None:
    return next((at for at in reversed(range(end)) if messages[at].role == "user"), None)

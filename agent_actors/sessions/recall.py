"""How much of a long session is sent: the newest of it, within limits, and nothing torn apart.

Owns the choice only: what a session keeps is not changed by it. The last word of the user's and
all that followed it are always sent, since a run that forgets what it was told, or what it just
did, cannot go on; what came before is sent as far as it fits beside that. A cut never parts a tool
use from its result, and what is sent begins with a word of the user's, as many endpoints want it:
where the cut falls into a long chain of tools, the word that began the chain stands before it.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

import attrs

from agent_actors.codec.lines import size_of
from agent_actors.domain.memo import MessageMemo
from agent_actors.domain.messages import Messages
from agent_actors.protocol.windows import whole_from

# Messages, and bytes of their JSON: about half a million tokens, beyond what models take today.
RESUME_MAX_EVENTS: Final = 1000
RESUME_MAX_BYTES: Final = 2_000_000

_SIZE: Final = "recall.size"


@attrs.frozen
class Recall:
    """How much of a session is sent; the system prompt does not count.

    Attributes:
        max_events: The most messages; `math.inf` for any number.
        max_bytes: The most bytes, by their JSON; `math.inf` for any number.
    """

    max_events: float = RESUME_MAX_EVENTS
    max_bytes: float = RESUME_MAX_BYTES

    def of(self, messages: Messages, memo: MessageMemo) -> Messages:
        """What of this conversation is sent.

        Args:
            messages: The conversation, valid and without a system prompt.
            memo: Keeps what was measured, as long as the conversation only grows.

        Returns:
            The same object, if all of it is sent.
        """
        sizes: Sequence[int] = ()
        if not math.isinf(self.max_bytes):
            sizes = memo.each(_SIZE, messages, size_of)
        if len(messages) <= self.max_events and sum(sizes) <= self.max_bytes:
            return messages
        kept = self._kept(messages, sizes or [0] * len(messages))
        return Messages(messages[at] for at in kept)

    def _kept(self, messages: Messages, sizes: Sequence[int]) -> Sequence[int]:
        last = len(messages)
        word = next((at for at in reversed(range(last)) if messages[at].role == "user"), last)
        # What it takes to send everything from each position on.
        after = [*accumulate(reversed(sizes), initial=0)][::-1]
        for start, before in _starts(messages, word):
            events = last - start + (before is not None)
            size = after[start] + (0 if before is None else sizes[before])
            if events <= self.max_events and size <= self.max_bytes:
                return [*([] if before is None else [before]), *range(start, last)]
        return range(word, last)


def _starts(messages: Messages, word: int) -> Iterator[tuple[int, int | None]]:
    # Where a cut may be, the oldest first, and the word of the user's that has to stand before it.
    whole = whole_from(messages)
    before: int | None = None
    for at in range(word):
        said = messages[at].role == "user"
        if whole[at]:
            yield at, None if said else before
        if said:
            before = at

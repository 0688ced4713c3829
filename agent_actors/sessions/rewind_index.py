"""What each record did to a conversation, so that a session can go back to any of them.

Owns the steps that were taken, each at the `seq` of its record, and which of them count. To go
back forgets nothing: what no longer counts stays in the trail, since a later record may go back to
before the earlier one went back. It does not know what a step is.
"""

from bisect import bisect_right
from typing import Generic, TypeVar

import attrs

T = TypeVar("T")


@attrs.define(eq=False)
class Trail(Generic[T]):
    """The steps of a session.

    What counts as of a record is the chain that ends there: each step follows the one before it,
    but for one that went back, which follows the last one that it kept.
    """

    _at: list[int] = attrs.field(factory=list[int], init=False)
    _steps: list[T | None] = attrs.field(factory=list["T | None"], init=False)
    # Where a step that went back goes on; a session that never does keeps nothing here.
    _back: dict[int, int] = attrs.field(factory=dict[int, int], init=False)

    def add(self, seq: int, step: T) -> None:
        """Take a step; `seq` never decreases."""
        self._at.append(seq)
        self._steps.append(step)

    def go_back(self, seq: int, to_seq: int) -> list[T]:
        """From here on, what counts is what counted right after `to_seq`.

        Args:
            seq: The record that says so.
            to_seq: Where to; below 1 is the beginning, and what has not come yet is where it is.

        Returns:
            The steps that count now, in order.
        """
        self._back[len(self._steps)] = bisect_right(self._at, to_seq) - 1
        self._at.append(seq)
        self._steps.append(None)
        return self.counting()

    def counting(self) -> list[T]:
        """The steps that count, in order."""
        found: list[T] = []
        at = len(self._steps) - 1
        while at >= 0:
            step = self._steps[at]
            if step is not None:
                found.append(step)
            at = self._back.get(at, at - 1)
        found.reverse()
        return found

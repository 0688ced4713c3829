"""An index of the steps of a conversation, so that a session can be rewound to any record.

The index stores each step with the `seq` of its record, and knows which steps are active. A rewind
deletes nothing: inactive steps stay in the index, because a later record may rewind to a point
before an earlier rewind. The index does not interpret the steps.
"""

from bisect import bisect_right
from typing import Generic, TypeVar

import attrs

T = TypeVar("T")


@attrs.define(eq=False)
class RewindIndex(Generic[T]):
    """The steps of a session.

    The steps that are active after a record form a chain that ends at this record. Each step
    follows the previous step, except a rewind, which follows the last step that it kept.
    """

    _at: list[int] = attrs.field(factory=list[int], init=False)
    _steps: list[T | None] = attrs.field(factory=list["T | None"], init=False)
    # The predecessor of each rewind step; empty in a session without rewinds.
    _back: dict[int, int] = attrs.field(factory=dict[int, int], init=False)

    def add(self, seq: int, step: T) -> None:
        """Add a step. `seq` must not decrease."""
        self._at.append(seq)
        self._steps.append(step)

    def go_back(self, seq: int, to_seq: int) -> None:
        """Reactivate the steps that were active right after record `to_seq`.

        Args:
            seq: The `seq` of the rewind's own record.
            to_seq: The record to rewind to. A value below 1 means the beginning of the session; a
                value above the last record changes nothing.
        """
        self._back[len(self._steps)] = bisect_right(self._at, to_seq) - 1
        self._at.append(seq)
        self._steps.append(None)

    def counting(self) -> list[T]:
        """Return the active steps, in order."""
        return [step for _, step in self.dated()]

    def dated(self) -> list[tuple[int, T]]:
        """Return the active steps, each with the `seq` of its record, in order."""
        found: list[tuple[int, T]] = []
        at = len(self._steps) - 1
        while at >= 0:
            step = self._steps[at]
            if step is not None:
                found.append((self._at[at], step))
            at = self._back.get(at, at - 1)
        found.reverse()
        return found

"""Decides when a busy reactor collects readable sockets before it reads them.

Each look at the sockets costs a task switch and two system calls, however many sockets are
readable. If many streams send at different times, almost every look finds a single socket. A
`ReadTick` then lets the reactor look at most once per tick. It does no I/O and reads no clock.

- A reactor that watches few sockets looks immediately.
- Collecting begins after several looks in a row that were less than a tick apart. It ends when a
  tick has found fewer than two sockets. Therefore the first data after a silence is read
  immediately.
- A look that took longer than a tick is followed by the next look, without a pause.
"""

from typing import Final

READ_TICK: Final = 0.002
"""The default tick, in seconds: less than the time between two tokens of the fastest models."""

LONGEST_READ_TICK: Final = 0.1
"""The longest accepted tick, in seconds. A person notices a longer delay."""

CROWD: Final = 16
"""The number of watched sockets from which on sockets are collected."""

EAGER_LOOKS: Final = 4
"""The number of looks, less than a tick apart, before collecting begins."""

FEW: Final = 2
"""Collecting ends when a tick has found fewer readable sockets than this."""


class ReadTick:
    """The pauses of one reactor.

    Args:
        seconds: The minimum time between the beginnings of two looks under load; 0: no pauses.

    Attributes:
        seconds: See above; may be changed at any time.
        collecting: True while the reactor pauses between two looks.
    """

    __slots__ = ("_began", "_streak", "collecting", "seconds")

    def __init__(self, seconds: float = READ_TICK) -> None:
        self.seconds: float = seconds
        self.collecting: bool = False
        self._began = float("-inf")
        self._streak = 0

    def pause(self, began: float, ended: float, *, found: int, watched: int) -> float | None:
        """Return the pause after a look, in seconds; None: wait until a socket is readable.

        Args:
            began: The time when the look began.
            ended: The time when all found sockets had been read.
            found: The number of readable sockets.
            watched: The number of watched sockets.
        """
        gap, self._began = began - self._began, began
        if watched < CROWD or not self.seconds > 0 or (self.collecting and found < FEW):
            self._streak, self.collecting = 0, False
            return None
        if not self.collecting:
            self._streak = self._streak + 1 if gap < self.seconds else 0
            if self._streak < EAGER_LOOKS:
                return None
            self.collecting = True
        return max(0.0, began + self.seconds - ended)

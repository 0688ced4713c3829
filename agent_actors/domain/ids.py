"""Types of ids, and the generator of unique ids.

Run, request and event ids are UUIDv7 (RFC 9562). They sort by time, so sorting a log by id puts it
in chronological order. The clock and the source of random bits are injected, so that tests can
predict every id.
"""

from collections.abc import Callable
from typing import Final, NewType, Protocol

import attrs

SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
RequestId = NewType("RequestId", str)
EventId = NewType("EventId", str)
CallId = NewType("CallId", str)

# A counter fills 48 bits of each UUIDv7 (RFC 9562, 6.2, method 1). The counter is seeded only once,
# because seeding it in each millisecond would cost more than all other steps of creating the id of
# a delta. The counter starts below half of its range, so it cannot overflow: that would take more
# than 100 trillion ids.
_COUNTER_BITS: Final = 48
_COUNTER_SEED_MASK: Final = (1 << (_COUNTER_BITS - 1)) - 1
# The possible last two digits of an id. Consecutive ids usually differ only in these digits, and
# formatting takes most of the time needed to create an id.
_LAST_DIGITS: Final = tuple(f"{number:02x}" for number in range(256))


class Ids(Protocol):
    """A generator of unique ids, each of which sorts after the earlier ones."""

    def new(self) -> str:
        """Return the next id."""
        ...

    def take(self, count: int) -> list[str]:
        """Return the next `count` ids."""
        ...


@attrs.define(eq=False)
class Uuid7Ids:
    """A generator of UUIDv7 ids from a clock and random bits; strictly increasing per instance.

    Args:
        clock: Returns the wall-clock time in seconds since the epoch. Ids keep increasing even if
            the clock is set back.
        random_bits: A function that takes a number of bits and returns a random unsigned integer of
            that size.
    """

    _clock: Callable[[], float]
    _random_bits: Callable[[int], int]
    _millis: int = attrs.field(default=-1, init=False)
    _counter: int = attrs.field(default=0, init=False)
    _prefix: str = attrs.field(default="", init=False)
    # The part of every id that the random bits determine once.
    _seeded: str = attrs.field(default="", init=False)

    def new(self) -> str:
        """Return the next id, as 36 characters in the usual grouping."""
        millis = int(self._clock() * 1000)
        if millis > self._millis:
            self._start_millisecond(millis)
        self._counter += 1
        return f"{self._prefix}{self._counter:012x}"

    def take(self, count: int) -> list[str]:
        """Return the next `count` ids, reading the clock only once."""
        millis = int(self._clock() * 1000)
        if millis > self._millis:
            self._start_millisecond(millis)
        first, prefix = self._counter + 1, self._prefix
        self._counter += count
        if count == 1:
            return [f"{prefix}{first:012x}"]
        ids: list[str] = []
        while len(ids) < count:
            high, low = divmod(first + len(ids), 256)
            head = f"{prefix}{high:010x}"
            ids += [head + digits for digits in _LAST_DIGITS[low : low + count - len(ids)]]
        return ids

    def _start_millisecond(self, millis: int) -> None:
        if self._millis < 0:
            bits = self._random_bits(_COUNTER_BITS + 26)
            self._counter = (bits >> 26) & _COUNTER_SEED_MASK
            entropy = bits & 0x3FFFFFF
            version, variant = 0x7000 | (entropy >> 14), 0x8000 | (entropy & 0x3FFF)
            self._seeded = f"-{version:04x}-{variant:04x}-"
        self._millis = millis
        self._prefix = f"{(millis >> 16) & 0xFFFFFFFF:08x}-{millis & 0xFFFF:04x}{self._seeded}"

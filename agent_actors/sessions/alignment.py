"""Alignment of the lines of a damaged log with record numbers.

Pure. An undamaged log has one line per record, numbered from 1. Disk damage can make lines
unreadable, join several lines (for example, if a page of zeros overwrites the line breaks), split a
line, or repeat lines. Each readable line contains its own `seq`. The longest sequence of lines with
rising numbers is trusted. The lines between two trusted lines are assigned to the numbers between
them. If no lines are left for some numbers, the records with these numbers are lost.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs
import msgspec

from agent_actors.codec.events import encode_event, read_event
from agent_actors.domain.events import AnyEvent, UnreadableEvent
from agent_actors.domain.session import Damage

# The minimum size of a record in bytes. A line whose number is too high for the size of the log is
# damaged, unless a neighboring line confirms the number. In that case, `_MOST_LOST` limits the
# number, because no accident loses more records at once.
_SMALLEST_RECORD: Final = 20
_MOST_LOST: Final = 1_000_000


class _Numbered(msgspec.Struct):
    seq: int


_NUMBERED: Final = msgspec.json.Decoder(_Numbered).decode


@attrs.frozen
class Alignment:
    """A log with exactly one line per record.

    Attributes:
        lines: The lines of the records, in order. A damaged line is replaced by the JSON of an
            `UnreadableEvent` that keeps the line's bytes, and a lost record by one without bytes.
        damage: The problems, in log order.
        dropped: The number of lines without a record: repeated lines, and lines between two
            records with consecutive numbers.
    """

    lines: tuple[bytes, ...]
    damage: tuple[Damage, ...]
    dropped: int = 0

    @property
    def lost(self) -> Damage | None:
        """The first records that are missing completely; None if there are none."""
        return next((one for one in self.damage if one.lost), None)


@attrs.frozen
class _Line:
    data: bytes
    offset: int
    event: AnyEvent

    @property
    def seq(self) -> int:
        """The number in a readable line; 0 if it has none."""
        if isinstance(self.event, UnreadableEvent) and self.event.raw == self.data:
            return 0  # a damaged line; the stored placeholder for a damaged line has a number
        return self.event.seq or 0


def is_aligned(lines: Sequence[bytes], first_seq: int) -> bool:
    """Return whether each line is JSON with the expected number.

    This is fast, because only the numbers are decoded.
    """
    try:
        return all(_NUMBERED(line).seq == seq for seq, line in enumerate(lines, first_seq))
    except (ValueError, RecursionError):
        return False


def aligned(
    session_id: str,
    lines: Iterable[bytes],
    *,
    first_seq: int = 1,
    last_seq: int | None = None,
    offsets: bool = True,
) -> Alignment:
    """Align lines with record numbers.

    Args:
        session_id: The session.
        lines: The lines as they are stored, in order, without line breaks.
        first_seq: The `seq` that the first record should have.
        last_seq: The `seq` that the last record should have; None if unknown.
        offsets: True if the lines come from a file, in which one byte follows each line.
    """
    found = _kept(list(_read(session_id, lines, first_seq)), first_seq, last_seq)
    made = _Aligner(session_id, offsets=offsets, next_seq=first_seq)
    between: list[_Line] = []
    for line, is_kept in found:
        if is_kept:
            made.fill(between, line.seq)
            made.keep(line)
            between = []
        else:
            between.append(line)
    made.fill(between, None if last_seq is None else last_seq + 1)
    return Alignment(tuple(made.lines), tuple(made.damage), made.dropped)


def _read(session_id: str, lines: Iterable[bytes], first_seq: int) -> Iterator[_Line]:
    offset = 0
    for position, line in enumerate(lines, first_seq):
        event = read_event(line, session_id, position)
        if isinstance(event, UnreadableEvent) and b"\0" in line:
            yield from _around_zeros(session_id, line, offset, position)
        else:
            yield _Line(line, offset, event)
        offset += len(line) + 1


def _around_zeros(session_id: str, line: bytes, offset: int, position: int) -> Iterator[_Line]:
    """Split a line that contains zeros, so that a record after the zeros stays readable."""
    tail = line[line.rindex(b"\0") + 1 :]
    event = read_event(tail, session_id, position)
    readable = bool(tail) and not isinstance(event, UnreadableEvent)
    head = line[: len(line) - len(tail)] if readable else line
    reason = "the line was overwritten with zeros"
    yield _Line(head, offset, UnreadableEvent(session_id, position, reason, head))
    if readable:
        yield _Line(tail, offset + len(head), event)


def _kept(lines: list[_Line], first_seq: int, last_seq: int | None) -> list[tuple[_Line, bool]]:
    """Return each line, with True if it is part of the longest sequence of rising numbers."""
    ends: list[int] = []  # for each length, the lowest number that ends a sequence
    at: list[int] = []  # the line with that number
    before: list[int] = []  # for each line, the previous line in its sequence
    for index, line in enumerate(lines):
        length = -1
        if first_seq <= line.seq <= _most(lines, index, first_seq, last_seq):
            length = bisect_left(ends, line.seq)
            if length == len(ends):
                ends.append(line.seq)
                at.append(index)
            elif line.seq < ends[length] or _is_better(lines, index, at[length], first_seq):
                ends[length], at[length] = line.seq, index
        before.append(at[length - 1] if length > 0 else -1)
    kept: set[int] = set()
    index = at[-1] if at else -1
    while index >= 0:
        kept.add(index)
        index = before[index]
    return [(line, index in kept) for index, line in enumerate(lines)]


def _most(lines: list[_Line], index: int, first_seq: int, last_seq: int | None) -> int:
    """Return the highest plausible number for a line."""
    if last_seq is not None:
        return last_seq
    most = first_seq + (lines[-1].offset + len(lines[-1].data)) // _SMALLEST_RECORD
    return most + _MOST_LOST if _is_supported(lines, index) else most


def _is_better(lines: list[_Line], index: int, other: int, first_seq: int) -> bool:
    """Return whether a line should replace an earlier candidate for the same sequence length.

    Of two lines with the same number, the first is kept unless the neighboring lines suggest the
    second.
    """
    if lines[index].seq != lines[other].seq or _is_supported(lines, other):
        return False
    in_place = lines[index].seq == first_seq + index
    return in_place or _is_supported(lines, index)


def _is_supported(lines: list[_Line], index: int) -> bool:
    """Return whether a neighboring line has the matching previous or next number."""
    seq = lines[index].seq
    before = index > 0 and lines[index - 1].seq == seq - 1
    return before or (index + 1 < len(lines) and lines[index + 1].seq == seq + 1)


@attrs.define(eq=False)
class _Aligner:
    session_id: str
    offsets: bool
    next_seq: int
    lines: list[bytes] = attrs.field(factory=list[bytes])
    damage: list[Damage] = attrs.field(factory=list[Damage])
    dropped: int = 0
    _last: bytes = b""

    def keep(self, line: _Line) -> None:
        """Add a line that has the next number."""
        self.lines.append(line.data)
        self._last = line.data
        self.next_seq += 1

    def fill(self, lines: list[_Line], up_to: int | None) -> None:
        """Assign lines to the numbers below `up_to`; if None, assign one number to each line."""
        lines = [line for line in lines if not self._is_repeated(line)]
        places = len(lines) if up_to is None else up_to - self.next_seq
        if not places:
            for line in lines:
                self._drop(line, f"no record number is left for a line: {_reason(line)}")
        elif not lines:
            self._lose(places)
        elif len(lines) == places:
            for line in lines:
                self._damaged(line.data, _reason(line), line)
        else:
            size = sum(len(line.data) for line in lines)
            last = self.next_seq + places - 1
            reason = f"{size} damaged bytes up to record {last}: {_reason(lines[0])}"
            self._damaged(b"\n".join(line.data for line in lines), reason, lines[0])
            for _ in range(places - 1):
                self._put(b"", f"among the damaged bytes of record {last - places + 1}")

    def _is_repeated(self, line: _Line) -> bool:
        if line.data != self._last:
            return False
        self._drop(line, "the line is repeated", self.next_seq - 1)
        return True

    def _drop(self, line: _Line, reason: str, seq: int | None = None) -> None:
        self._note(reason, line, self.next_seq if seq is None else seq)
        self.dropped += 1

    def _damaged(self, raw: bytes, reason: str, line: _Line) -> None:
        self._note(reason, line, self.next_seq)
        self._put(raw, reason)

    def _lose(self, places: int) -> None:
        last = self.next_seq + places - 1
        which = f"records {self.next_seq} to {last} are" if places > 1 else "the record is"
        reason = f"{which} lost: no bytes are left in the log"
        self.damage.append(Damage(reason, self.next_seq, None, places))
        for _ in range(places):
            self._put(b"", "lost: no bytes are left in the log")

    def _put(self, raw: bytes, reason: str) -> None:
        event = UnreadableEvent(self.session_id, self.next_seq, reason, raw)
        self.lines.append(encode_event(event))
        self.next_seq += 1

    def _note(self, reason: str, line: _Line, seq: int) -> None:
        self.damage.append(Damage(reason, seq, line.offset if self.offsets else None))


def _reason(line: _Line) -> str:
    if line.seq:
        return f"the line has the number {line.seq}"
    if isinstance(line.event, UnreadableEvent):
        return line.event.reason
    return "the line has no number"

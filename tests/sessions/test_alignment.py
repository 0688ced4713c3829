"""Lines of a damaged log are aligned with record numbers."""

import pytest

from agent_actors.codec.events import encode_event, read_event
from agent_actors.domain.events import EventScope, Notification, UnreadableEvent
from agent_actors.domain.session import Damage
from agent_actors.sessions.alignment import aligned, is_aligned

SCOPE = EventScope("s", "r", "q")


def line(seq: int | None, text: str = "x") -> bytes:
    return encode_event(Notification(SCOPE, f"id-{seq}", 1.0, text=text, seq=seq))


SIZE = len(line(1)) + 1
BAD = b"bad"
NOT_JSON = "expected an event as JSON: JSON is malformed: invalid character (byte 0)"


def described(record: bytes) -> str | bytes:
    """The number and the text of a record, or the kept bytes of a damaged one."""
    event = read_event(record, "s", 0)
    if isinstance(event, Notification):
        return f"{event.seq}{event.text}"
    assert isinstance(event, UnreadableEvent)
    return event.raw


def test_line_without_number_is_damage() -> None:
    found = aligned("s", [line(None)], last_seq=1)
    assert [damage.reason for damage in found.damage] == ["the line has no number"]
    assert len(found.lines) == 1


def test_record_after_zeros_stays_readable() -> None:
    found = aligned("s", [line(1), b"\0" * 20 + line(3), line(4)])
    assert list(found.lines[2:]) == [line(3), line(4)]
    assert [damage.seq for damage in found.damage] == [2]


LOST_2_TO_5 = Damage("records 2 to 5 are lost: no bytes are left in the log", 2, None, 4)


@pytest.mark.parametrize(
    ("lines", "records", "damage"),
    [
        ([line(1), BAD, line(3)], ["1x", BAD, "3x"], Damage(NOT_JSON, 2, SIZE)),
        (
            [line(1), line(3)],
            ["1x", b"", "3x"],
            Damage("the record is lost: no bytes are left in the log", 2, None, 1),
        ),
        ([line(1), line(6)], ["1x", b"", b"", b"", b"", "6x"], LOST_2_TO_5),
        (
            [line(1), BAD, b"worse", line(5)],
            ["1x", b"bad\nworse", b"", b"", "5x"],
            Damage(f"8 damaged bytes up to record 4: {NOT_JSON}", 2, SIZE),
        ),
        (
            [line(1), b"\0" * 5, line(3)],
            ["1x", b"\0" * 5, "3x"],
            Damage("the line was overwritten with zeros", 2, SIZE),
        ),
        # A number that the log is too small for.
        (
            [line(1), line(60), line(3)],
            ["1x", line(60), "3x"],
            Damage("the line has the number 60", 2, SIZE),
        ),
        # The neighboring line agrees with such a number.
        (
            [line(1), line(60), line(61)],
            ["1x", *[b""] * 58, "60x", "61x"],
            Damage("records 2 to 59 are lost: no bytes are left in the log", 2, None, 58),
        ),
        # Of two lines with one number, the first is kept,
        (
            [line(1), line(2, "a"), line(2), line(4)],
            ["1x", "2a", line(2), "4x"],
            Damage("the line has the number 2", 3, 2 * SIZE),
        ),
        # unless only the second is in its place,
        (
            [line(1), line(3, "a"), line(3), BAD, line(5)],
            ["1x", line(3, "a"), "3x", BAD, "5x"],
            Damage("the line has the number 3", 2, SIZE),
        ),
        # or unless a neighboring line agrees with the second only.
        (
            [line(1), line(6, "a"), line(6), line(7)],
            ["1x", line(6, "a"), b"", b"", b"", "6x", "7x"],
            Damage(f"{SIZE - 1} damaged bytes up to record 5: the line has the number 6", 2, SIZE),
        ),
        ([line(1), line(6, "a"), line(6)], ["1x", *[b""] * 4, "6a", line(6)], LOST_2_TO_5),
    ],
)
def test_each_record_gets_one_line(
    lines: list[bytes], records: list[str | bytes], damage: Damage
) -> None:
    found = aligned("s", lines)
    assert [described(record) for record in found.lines] == records
    assert (found.damage[0], found.dropped) == (damage, 0)
    assert found.lost == (damage if damage.lost else None)
    assert is_aligned(found.lines, 1)
    assert aligned("s", found.lines).damage == ()


def test_lines_without_a_record_are_dropped() -> None:
    found = aligned("s", [line(5), BAD, line(6), line(6), BAD], first_seq=5, last_seq=6)
    assert [described(record) for record in found.lines] == ["5x", "6x"]
    no_number = "no record number is left for a line"
    assert found.damage == (
        Damage(f"{no_number}: {NOT_JSON}", 6, SIZE),
        Damage("the line is repeated", 6, 2 * SIZE + len(BAD) + 1),
        Damage(f"{no_number}: {NOT_JSON}", 7, 3 * SIZE + len(BAD) + 1),
    )
    assert found.dropped == 3


def test_ends_of_the_log_bound_the_numbers() -> None:
    found = aligned("s", [line(4), line(5), line(9)], first_seq=5, last_seq=7, offsets=False)
    assert [described(record) for record in found.lines] == ["5x", line(9), b""]

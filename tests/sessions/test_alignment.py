"""Lines of a damaged log are aligned with record numbers."""

from agent_actors.codec.events import encode_event
from agent_actors.domain.events import EventScope, Notification
from agent_actors.sessions.alignment import aligned

SCOPE = EventScope("s", "r", "q")


def line(seq: int | None) -> bytes:
    return encode_event(Notification(SCOPE, f"id-{seq}", 1.0, text="x", seq=seq))


def test_line_without_number_is_damage() -> None:
    found = aligned("s", [line(None)], last_seq=1)
    assert [damage.reason for damage in found.damage] == ["the line has no number"]
    assert len(found.lines) == 1


def test_record_after_zeros_stays_readable() -> None:
    found = aligned("s", [line(1), b"\0" * 20 + line(3), line(4)])
    assert list(found.lines[2:]) == [line(3), line(4)]
    assert [damage.seq for damage in found.damage] == [2]

"""The work of `agent-actors trace`: draw the spans of a file as a waterfall."""

import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from agent_actors.cli.outcome import FAILED, fail, reject
from agent_actors.cli.safe_text import visible
from agent_actors.errors import ConfigError
from agent_actors.telemetry.recorders import TraceRecord, read_trace

# The attributes whose values follow the name of a span, because they tell similar spans apart.
_NAMES: Final = ("tool_name", "model")
_LEAST_BAR: Final = 20
_LONGEST_LABEL: Final = 40
_SECONDS: Final = 9  # characters of a duration


@attrs.frozen
class _Line:
    depth: int
    record: TraceRecord

    @property
    def label(self) -> str:
        named = next(
            (str(value) for name in _NAMES if (value := self.record.attributes.get(name))), ""
        )
        text = visible(f"{self.record.name} {named}".rstrip())
        label = "  " * self.depth + text
        return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def show_trace(path: str) -> int:
    """Print the trace in a file, one line for each span or event.

    Returns:
        The exit status.
    """
    try:
        records = read_trace(path)
    except ConfigError as error:
        return reject(error)
    except (OSError, UnicodeDecodeError) as error:
        return fail(f"cannot read the trace: {error}", FAILED)
    width = shutil.get_terminal_size().columns
    sys.stdout.write("".join(f"{line}\n" for line in waterfall(records, width=width)))
    return 0


def waterfall(records: Sequence[TraceRecord], *, width: int = 100) -> Iterator[str]:
    """Yield the lines of a waterfall: name, duration, and a bar on a common time axis.

    Args:
        records: The records, in any order. A record whose parent is missing has no indentation.
        width: The number of columns.
    """
    if not records:
        yield "the trace has no records"
        return
    lines = list(_ordered(records))
    begin = min(record.started_at for record in records)
    seconds = max(record.started_at + record.duration for record in records) - begin
    label = max(len(line.label) for line in lines)
    columns = max(_LEAST_BAR, width - label - _SECONDS - 4)
    yield f"{'':{label + _SECONDS + 2}} 0{_length(seconds):>{columns - 1}}"
    for line in lines:
        record = line.record
        start = record.started_at - begin
        bar = _bar(start, record, seconds, columns)
        took = "event" if record.kind == "event" else _length(record.duration)
        failed = "" if record.error is None else f"  {visible(record.error)}"
        yield f"{line.label:{label}} {took:>{_SECONDS}} |{bar:{columns}}|{failed}".rstrip()


def _bar(start: float, record: TraceRecord, seconds: float, columns: int) -> str:
    scale = columns / seconds if seconds > 0 else 0.0
    first = min(columns - 1, int(start * scale))
    if record.kind == "event":
        return " " * first + "*"
    last = min(columns, max(first + 1, math.ceil((start + record.duration) * scale)))
    return " " * first + "#" * (last - first)


def _ordered(records: Sequence[TraceRecord]) -> Iterator[_Line]:
    """Yield parents before their children, by start time."""
    known = {record.id for record in records if record.id}
    children: dict[str, list[TraceRecord]] = {}
    for record in sorted(records, key=lambda one: one.started_at):
        parent = record.parent_id if record.parent_id in known else ""
        children.setdefault(parent, []).append(record)
    pending = [_Line(0, record) for record in reversed(children.pop("", []))]
    while pending:
        line = pending.pop()
        yield line
        inside = children.pop(line.record.id, []) if line.record.id else []
        pending += [_Line(line.depth + 1, record) for record in reversed(inside)]


def _length(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"

"""The display of a demo."""

import io

from rich.console import Console, RenderableType

from agent_actors import AgentError
from agent_actors.cli.demo.display import progress, table
from agent_actors.cli.demo.runner import DemoPlan, Snapshot
from agent_actors.cli.demo.tally import Tally, ToolGauge, report_of

PLAN = DemoPlan(sessions=4, tools=8, base_url="http://x/v1", model="m")


def drawn(picture: RenderableType, *, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as file:
        Console(file=file, width=100).print(picture)
        file.flush()
        return raw.getvalue().decode(encoding)


def test_progress_counts_failed_sessions_as_done() -> None:
    tally = Tally(ToolGauge(calls=7, running=3), sessions=2, failures=[AgentError()], deltas=1234)
    text = drawn(progress(PLAN, Snapshot(tally, live_streams=1, seconds=2.0), 56.7))

    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0].startswith("sessions done 3 of 4")
    assert lines[1:] == [
        "live streams 1",
        "tools running 3 7 done",
        "deltas per second 57 1,234 so far",
    ]


def test_table_shows_calls_of_real_model() -> None:
    tally = Tally(ToolGauge(calls=20, peak=5), sessions=4, runs=4, tool_errors=2)
    text = drawn(table(PLAN, tally, report_of(tally)))

    assert "4 sessions at once on m at http://x/v1" in text
    assert "20 (32 requested), 2 failed" in text
    assert "none received" in text


def test_table_renders_in_any_encoding() -> None:
    assert "+--" in drawn(table(PLAN, Tally(), report_of(Tally())), encoding="ascii")

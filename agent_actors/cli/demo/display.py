"""The display of a demo on a terminal: live progress, then a table, drawn with rich.

It writes to the console's own stream and may block, which is acceptable in a demo.
"""

from collections.abc import Callable
from typing import Final

import trio
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from agent_actors.cli.demo.runner import DemoPlan, Snapshot
from agent_actors.cli.demo.tally import DemoReport, Tally

# Seconds between two frames: short enough for visible movement, long enough to cost almost nothing.
_EVERY: Final = 0.1
_BAR_WIDTH: Final = 40


async def show_live(console: Console, plan: DemoPlan, look: Callable[[], Snapshot]) -> None:
    """Show the progress of a demo until cancelled, then erase it.

    Args:
        console: The console to draw on.
        plan: The plan of the demo.
        look: Returns a snapshot of the demo.

    Cancellation: safe.
    """
    with Live(console=console, auto_refresh=False, transient=True) as live:
        deltas, seconds, rate = 0, 0.0, 0.0
        while True:
            now = look()
            if now.seconds > seconds:
                rate = (now.tally.deltas - deltas) / (now.seconds - seconds)
            deltas, seconds = now.tally.deltas, now.seconds
            live.update(progress(plan, now, rate), refresh=True)
            await trio.sleep(_EVERY)


def progress(plan: DemoPlan, now: Snapshot, rate: float) -> Table:
    """Return one frame that shows the progress of a demo.

    Args:
        plan: The plan of the demo.
        now: A snapshot of the demo.
        rate: Deltas per second since the last frame.
    """
    done = now.tally.sessions + len(now.tally.failures)
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        "sessions done",
        f"{done} of {plan.sessions}",
        ProgressBar(plan.sessions, done, width=_BAR_WIDTH),
    )
    grid.add_row("live streams", str(now.live_streams), "")
    grid.add_row("tools running", str(now.tally.tools.running), f"{now.tally.tools.calls} done")
    grid.add_row("deltas per second", f"{rate:,.0f}", f"{now.tally.deltas:,} so far")
    return grid


def table(plan: DemoPlan, tally: Tally, report: DemoReport) -> Table:
    """Return a table with the results of a demo.

    Args:
        plan: The plan of the demo.
        tally: The counts.
        report: The results computed from the counts.
    """
    named = plan.base_url or plan.provider
    where = "the embedded endpoint" if plan.embedded else f"{plan.model} at {named}"
    shown = Table(title=f"{plan.sessions} sessions at once on {where}", title_justify="left")
    shown.add_column("measured")
    shown.add_column("value", justify="right")
    model_calls = plan.sessions * plan.turns
    for name, value in (
        ("sessions that finished", f"{report.sessions} of {plan.sessions}"),
        ("runs that finished", f"{report.runs} of {model_calls}"),
        ("tool calls", _tool_calls(plan, tally)),
        ("most tools at once", str(report.max_tools_in_parallel)),
        ("deltas", f"{report.deltas:,}"),
        ("deltas per second", f"{report.deltas_per_s:,.1f}"),
        ("time to the first token, median", _time(report.ttft_ms_p50)),
        ("time to the first token, 99 %", _time(report.ttft_ms_p99)),
        ("second runs on a busy session, rejected", str(report.busy_rejections)),
        ("tasks left behind", str(report.leaked_tasks)),
        ("connections left behind", str(report.leaked_connections)),
        ("seconds", f"{tally.seconds:.2f}"),
    ):
        shown.add_row(name, value)
    return shown


def _tool_calls(plan: DemoPlan, tally: Tally) -> str:
    tool_calls = plan.sessions * plan.turns * plan.tools
    calls = f"{tally.tools.calls:,}"
    if tally.tools.calls != tool_calls:
        # A real model may make more or fewer calls.
        calls += f" ({tool_calls:,} requested)"
    if tally.tool_errors:
        calls += f", {tally.tool_errors:,} failed"
    return calls


def _time(milliseconds: float | None) -> str:
    return "none received" if milliseconds is None else f"{milliseconds:,.1f} ms"

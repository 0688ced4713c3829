"""Runs the demo, and reports its results."""

import json
import sys
from functools import partial

import attrs
from rich.console import Console

from agent_actors.cli.demo.display import show_live, table
from agent_actors.cli.demo.runner import Demo, DemoPlan
from agent_actors.cli.demo.tally import report_of
from agent_actors.cli.outcome import complete, fail


async def run_demo(plan: DemoPlan, *, as_json: bool) -> int:
    """Run a demo and print its report.

    Args:
        plan: The plan of the demo.
        as_json: Print one JSON object and nothing else.

    Returns:
        The exit status.

    Cancellation: the runtime and the endpoint are closed.
    """
    console = Console()
    demo = Demo(plan)
    live = console.is_terminal and not as_json
    alongside = [partial(show_live, console, plan, demo.snapshot)] if live else []
    status = await complete(demo.drive, alongside=alongside)
    if not demo.finished:
        return status
    report = report_of(demo.tally)
    if as_json:
        sys.stdout.write(json.dumps(attrs.asdict(report)) + "\n")
    else:
        console.print(table(plan, demo.tally, report))
    for fault in demo.faults():
        fail(fault)
    return status

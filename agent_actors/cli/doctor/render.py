"""The display of a report: tables on a terminal, plain lines elsewhere. Drawn with rich.

Text from an endpoint is displayed as text, never as markup, and without control characters.
"""

from collections.abc import Callable, Iterator
from typing import Final

import trio
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from agent_actors.cli.doctor.report import Check, Figures, Report, profile_text, toml
from agent_actors.cli.safe_text import visible

# Seconds between two frames, so that a person sees the progress.
_EVERY: Final = 0.1
_COLOURS: Final = {"works": "green", "note": "yellow", "fails": "red", "untried": "dim"}


async def show_progress(console: Console, look: Callable[[], str]) -> None:
    """Show the current check until cancelled, then erase it.

    Args:
        console: The console to draw on.
        look: Returns the name of the current check.

    Cancellation: safe.
    """
    spinner = Spinner("line")
    with Live(spinner, console=console, auto_refresh=False, transient=True) as live:
        while True:
            spinner.update(text=Text(f"trying: {look()}"))
            live.refresh()
            await trio.sleep(_EVERY)


def show(console: Console, report: Report) -> None:
    """Show a report.

    Args:
        console: The console to print to; a terminal gets tables.
        report: The report.
    """
    if console.is_terminal:
        _draw(console, report)
        return
    for line in lines(report):
        console.print(Text(line), soft_wrap=True)


def lines(report: Report) -> Iterator[str]:
    """Yield a report as lines of plain text."""
    yield f"{visible(report.model)} at {report.endpoint} ({report.provider}, {report.protocol})"
    for check in report.checks:
        needed = "*" if check.needed else " "
        yield f"{check.status:8}{needed} {check.name:15} {visible(check.detail)}".rstrip()
    for name, value in _figures(report.figures):
        yield f"figure    {name}: {value}"
    for one in report.observed_quirks:
        yield f"quirk     {_numbered(report, one.number)} {one.name}: {visible(one.seen)}"
    for item in report.recommendations:
        yield f"set       {item.place} {item.name} = {toml(item.value)}: {item.why}"
    yield from profile_text(report).splitlines()
    yield verdict(report)


def verdict(report: Report) -> str:
    """Return the conclusion of a report in one sentence."""
    if report.usable:
        return "An agent can use this endpoint."
    lacking = [c.name for c in report.checks if c.needed and c.status != "works"]
    return f"An agent cannot use this endpoint; missing: {', '.join(lacking)}."


def _draw(console: Console, report: Report) -> None:
    title = f"{visible(report.model)} at {report.endpoint} ({report.provider}, {report.protocol})"
    console.print(Text(title, style="bold"))
    console.print(_checks(report.checks))
    figures = list(_figures(report.figures))
    if figures:
        console.print(_grid(*figures))
    if report.observed_quirks:
        table = Table("no.", "quirk", "seen", title="observed quirks", title_justify="left")
        for one in report.observed_quirks:
            table.add_row(_numbered(report, one.number), one.name, Text(visible(one.seen)))
        console.print(table)
    if report.recommendations:
        table = Table("where", "set", "why", title="recommended settings", title_justify="left")
        for recommendation in report.recommendations:
            setting = Text(f"{recommendation.name} = {toml(recommendation.value)}")
            table.add_row(recommendation.place, setting, recommendation.why)
        console.print(table)
    if text := profile_text(report):
        console.print(Text(f"\n{text}\n"))
    console.print(Text(verdict(report), style="green" if report.usable else "red"))


def _checks(checks: tuple[Check, ...]) -> Table:
    table = Table("", "check", "needed", "found")
    for check in checks:
        status = Text(check.status, style=_COLOURS[check.status])
        table.add_row(
            status, check.name, "yes" if check.needed else "", Text(visible(check.detail))
        )
    return table


def _grid(*rows: tuple[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for row in rows:
        grid.add_row(*row)
    return grid


def _figures(figures: Figures) -> Iterator[tuple[str, str]]:
    if figures.first_token_ms is not None:
        yield "time to the first token", f"{figures.first_token_ms:,.1f} ms"
    if figures.deltas_per_s is not None:
        yield "deltas per second", f"{figures.deltas_per_s:,.1f}"
    if figures.tokens_per_s is not None:
        yield "tokens per second", f"{figures.tokens_per_s:,.1f}"


def _numbered(report: Report, number: int) -> str:
    return f"{number} (known)" if number in report.expected else str(number)

"""The counts of a demo, and the report computed from them.

This module depends on neither the runtime nor the display. The tools count themselves with
`ToolGauge`, so the number of tools that run at once is measured where they run.
"""

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import attrs


@attrs.define(eq=False)
class ToolGauge:
    """Counts tool calls from inside the tools.

    Attributes:
        calls: Number of completed calls.
        running: Number of calls that are running now.
        peak: Maximum number of calls that were running at once.
    """

    calls: int = 0
    running: int = 0
    peak: int = 0

    @contextmanager
    def ran(self) -> Generator[None]:
        """Count a call inside the block; failed and cancelled calls are not added to `calls`."""
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            yield
            self.calls += 1
        finally:
            self.running -= 1


@attrs.define(eq=False)
class Tally:
    """The counts of a demo so far.

    Attributes:
        tools: The counts of the tools.
        sessions: Sessions whose runs have all ended.
        runs: Runs that ended with a response.
        deltas: Deltas of text and thinking that subscribers received.
        first_tokens: For each run, the seconds until the model's first output.
        busy: Second runs on a busy session that were rejected.
        let_in: Second runs on a busy session that were not rejected.
        tool_errors: Calls whose result was an error.
        failures: The errors of failed runs.
        started_at: The time when the first run began, by a monotonic clock.
        seconds: Duration of all runs together; 0 until they have ended.
        leaked_tasks: Tasks that outlived the runtime.
        leaked_connections: Connections that outlived the runtime.
    """

    tools: ToolGauge = attrs.field(factory=ToolGauge)
    sessions: int = 0
    runs: int = 0
    deltas: int = 0
    first_tokens: list[float] = attrs.field(factory=list[float])
    busy: int = 0
    let_in: int = 0
    tool_errors: int = 0
    failures: list[Exception] = attrs.field(factory=list[Exception])
    started_at: float = 0.0
    seconds: float = 0.0
    leaked_tasks: int = 0
    leaked_connections: int = 0


@attrs.frozen
class DemoReport:
    """The results of a demo. The fields are the keys of its JSON form, in this order.

    Attributes:
        sessions: Sessions whose runs have all ended.
        runs: Runs that ended with a response.
        tool_calls: Completed tool calls.
        max_tools_in_parallel: Maximum number of tools that ran at once, as they counted themselves.
        deltas: Deltas of text and thinking that subscribers received.
        deltas_per_s: Deltas per second over all runs.
        ttft_ms_p50: Median of the milliseconds to the model's first output; None without any run.
        ttft_ms_p99: 99th percentile of the same times.
        busy_rejections: Second runs on a busy session that were rejected.
        leaked_tasks: Tasks that outlived the runtime.
        leaked_connections: Connections that outlived the runtime.
    """

    sessions: int
    runs: int
    tool_calls: int
    max_tools_in_parallel: int
    deltas: int
    deltas_per_s: float
    ttft_ms_p50: float | None
    ttft_ms_p99: float | None
    busy_rejections: int
    leaked_tasks: int
    leaked_connections: int


def report_of(tally: Tally) -> DemoReport:
    """Return the report computed from these counts."""
    return DemoReport(
        sessions=tally.sessions,
        runs=tally.runs,
        tool_calls=tally.tools.calls,
        max_tools_in_parallel=tally.tools.peak,
        deltas=tally.deltas,
        deltas_per_s=round(tally.deltas / tally.seconds, 1) if tally.seconds else 0.0,
        ttft_ms_p50=_milliseconds(percentile(tally.first_tokens, 50)),
        ttft_ms_p99=_milliseconds(percentile(tally.first_tokens, 99)),
        busy_rejections=tally.busy,
        leaked_tasks=tally.leaked_tasks,
        leaked_connections=tally.leaked_connections,
    )


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the percentile by the nearest-rank method; None if there are no values."""
    if not values:
        return None
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]


def faults_of(tally: Tally, *, runs: int) -> list[str]:
    """Return the failures of a demo with this many runs, one line each."""
    faults: list[str] = []
    if tally.runs < runs:
        first = f"; the first failure: {tally.failures[0]}" if tally.failures else ""
        faults.append(f"{runs - tally.runs} of {runs} runs did not finish{first}")
    if tally.let_in:
        faults.append(f"{tally.let_in} second runs were accepted on a busy session")
    if tally.leaked_tasks:
        faults.append(f"{tally.leaked_tasks} tasks outlived the runtime")
    if tally.leaked_connections:
        faults.append(f"{tally.leaked_connections} connections outlived the runtime")
    return faults


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)

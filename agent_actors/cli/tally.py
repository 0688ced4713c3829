"""What a demo counts, and what its counts come to.

Owns the numbers, and knows neither the runtime nor how they are shown. The tools count themselves
in `ToolGauge`: how many ran at once is measured where they run.
"""

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import attrs


@attrs.define(eq=False)
class ToolGauge:
    """Counts tools, from inside of them.

    Attributes:
        calls: How many ran to their end.
        running: How many run now.
        peak: The most that ran at once.
    """

    calls: int = 0
    running: int = 0
    peak: int = 0

    @contextmanager
    def ran(self) -> Generator[None]:
        """Count one, while inside; one that fails or is cancelled is no call."""
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            yield
            self.calls += 1
        finally:
            self.running -= 1


@attrs.define(eq=False)
class Tally:
    """What was counted so far.

    Attributes:
        tools: What the tools count.
        sessions: Sessions whose runs have all ended.
        runs: Runs that ended with an answer.
        deltas: Pieces of answers and thoughts that readers got.
        first_tokens: Of each run, the seconds until the model's first sign.
        busy: Second runs on a busy session that were rejected.
        let_in: Those that were not.
        tool_errors: Calls whose result was an error.
        failures: What runs failed with.
        started_at: When the first run began, by a clock that never goes back.
        seconds: How long all runs took together; 0 until they have ended.
        leaked_tasks: Tasks that outlived the runtime.
        leaked_connections: Connections that did.
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
    """What a demo came to; the keys of its JSON form, in their order.

    Attributes:
        sessions: Sessions whose runs have all ended.
        runs: Runs that ended with an answer.
        tool_calls: Tools that ran.
        max_tools_in_parallel: The most that ran at once, as they counted themselves.
        deltas: Pieces of answers and thoughts that readers got.
        deltas_per_s: The same, per second of all runs.
        ttft_ms_p50: Milliseconds to the model's first sign, in the middle; None without any run.
        ttft_ms_p99: The same, of the slowest hundredth.
        busy_rejections: Second runs on a busy session that were rejected.
        leaked_tasks: Tasks that outlived the runtime.
        leaked_connections: Connections that did.
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
    """What these counts come to."""
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
    """The smallest value that so many per cent do not exceed (nearest rank); None of none."""
    if not values:
        return None
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]


def faults_of(tally: Tally, *, runs: int) -> list[str]:
    """What a demo of so many runs must not come to, each fault as a line."""
    faults: list[str] = []
    if tally.runs < runs:
        first = f"; the first failure: {tally.failures[0]}" if tally.failures else ""
        faults.append(f"{runs - tally.runs} of {runs} runs did not finish{first}")
    if tally.let_in:
        faults.append(f"{tally.let_in} second runs were let into a busy session")
    if tally.leaked_tasks:
        faults.append(f"{tally.leaked_tasks} tasks outlived the runtime")
    if tally.leaked_connections:
        faults.append(f"{tally.leaked_connections} connections outlived the runtime")
    return faults


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)

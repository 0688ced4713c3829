"""The event loop while a tool returns 100 MB: the durations of its steps, and the delay of a timer.

Several other sessions make calls all the time, as in a service.

A step lasts from the resumption of a task to its next checkpoint. No other task runs meanwhile. The
claim is that the 99th percentile of the steps stays under 50 ms. The delay of a task that sleeps
for a millisecond also shows how long a thread holds the interpreter's lock.
"""

import math
import statistics
import time
from collections.abc import Callable
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.domain.json import JsonValue
from agent_actors.testing import ScriptedModel, call
from benchmarks.record import QUICK, ROUNDS, Row, report, row

BYTES: Final = 10_000_000 if QUICK else 100_000_000
OTHERS: Final = 4
LIMIT: Final = 50.0
"""The claimed maximum, in milliseconds."""


def plain_text() -> JsonValue:
    """Return ASCII text, which needs no check."""
    return "a line of plain text\n" * (BYTES // 21)


def other_text() -> JsonValue:
    """Return text whose characters take two or three bytes each."""
    return "eine längere Zeile, 長い行\n" * (BYTES // 34)


def json_values() -> JsonValue:
    """Return many small JSON values."""
    return [{"number": number, "name": "x" * 40} for number in range(BYTES // 70)]


VALUES: Final[dict[str, Callable[[], JsonValue]]] = {
    "ASCII text": plain_text,
    "other text": other_text,
    "JSON values": json_values,
}


@attrs.define(eq=False)
class Steps(trio.abc.Instrument):
    """The durations of all steps, in milliseconds."""

    found: list[float] = attrs.field(factory=list[float])
    _began: float = attrs.field(factory=time.perf_counter)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Record the start of the step."""
        self._began = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Record the duration of the step."""
        self.found.append((time.perf_counter() - self._began) * 1000)


async def measure(value: JsonValue) -> tuple[list[float], list[float]]:
    """Return the steps and the timer's delays while a tool returns a value, in milliseconds."""

    @tool
    async def fetch() -> JsonValue:
        """Return the value."""
        return value

    delays: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await trio.sleep(0.001)
            delays.append((time.perf_counter() - before) * 1000 - 1)

    model = ScriptedModel([[call("fetch")], "Done."])
    options = AgentOptions(model="m", provider=model, tools=[fetch])
    steps = Steps()
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def work() -> None:
            while True:
                await runtime.run("go", ordinary())
                await trio.sleep(0.001)

        nursery.start_soon(tick)
        for _ in range(OTHERS):
            nursery.start_soon(work)
        await trio.sleep(0.05)
        trio.lowlevel.add_instrument(steps)
        result = await runtime.run("go", options)
        trio.lowlevel.remove_instrument(steps)
        assert result.tool_calls[0].complete_bytes >= BYTES * 0.9
        nursery.cancel_scope.cancel()
    return steps.found, delays


def ordinary() -> AgentOptions:
    """Return an agent that makes one short call."""

    @tool
    async def look() -> str:
        """Look."""
        return "fine"

    return AgentOptions(model="m", provider=ScriptedModel([[call("look")], "Done."]), tools=[look])


def p99(figures: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(figures)[math.ceil(len(figures) * 0.99) - 1]


def main() -> None:
    """Run the benchmark."""
    rows: dict[str, Row] = {}
    for name, make in VALUES.items():
        value = make()
        rounds = [trio.run(measure, value) for _ in range(ROUNDS)]
        steps = [p99(found) for found, _ in rounds]
        rows[f"{name}, p99 of steps"] = row(steps, holds=max(steps) < LIMIT)
        rows[f"{name}, longest step"] = row([max(found) for found, _ in rounds])
        rows[f"{name}, p99 of a timer's delay"] = row([p99(delays) for _, delays in rounds])
        rows[f"{name}, median delay"] = row([statistics.median(delays) for _, delays in rounds])
    megabytes = BYTES // 1_000_000
    report("large_results", f"The loop while a tool returns {megabytes} MB", "ms", rows)


if __name__ == "__main__":
    main()

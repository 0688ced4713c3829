"""Cancellation of many active streams: the time and the CPU until all of them are cleaned up.

The measurement ends when every run is joined, no connection is busy, and there are no more tasks
than before.
"""

import math
import time
from collections.abc import Callable
from typing import Final

import trio
import trio.testing

from agent_actors import AgentOptions, open_runtime
from agent_actors.runtime.runtime import Runtime
from benchmarks.endpoint import cpu_seconds, pin
from benchmarks.harness import endpoint
from benchmarks.record import QUICK, ROUNDS, report, row

STREAMS: Final = 200 if QUICK else 1000


def main() -> None:
    """Run the benchmark."""
    pin(0)
    with endpoint() as served:
        url = served.base_url("paced/1/1000")
        found = [trio.run(_measure, url) for _ in range(ROUNDS)]
    spent = row([cpu / STREAMS * 1e6 for _, cpu, _, _ in found])
    title = f"CPU to cancel a stream, one of {STREAMS}"
    report("cancel_cpu", title, "µs", {"agent_actors": spent})
    report(
        "cancel",
        f"time to cancel {STREAMS} streams and clean up",
        "ms",
        {
            "agent_actors": row(
                [wall * 1e3 for wall, *_ in found],
                tasks_left=max(tasks for _, _, tasks, _ in found),
                connections_left=max(connections for *_, connections in found),
            )
        },
    )


async def _measure(url: str) -> tuple[float, float, int, int]:
    """Return the seconds, the CPU seconds, and the numbers of remaining tasks and connections."""
    options = AgentOptions(model="m", base_url=url)
    shown = 0

    async def read(runtime: Runtime) -> None:
        nonlocal shown
        async with runtime.stream("Go.", options) as events:
            async for event in events:
                shown += event.type == "assistant.delta"

    def tasks() -> int:
        return trio.lowlevel.current_statistics().tasks_living

    async with open_runtime(streams_per_endpoint=math.inf) as runtime:
        with trio.move_on_after(0.1):  # start the endpoint's actor
            await read(runtime)
        await trio.testing.wait_all_tasks_blocked()
        shown, before = 0, tasks()
        async with trio.open_nursery() as nursery:
            for _ in range(STREAMS):
                nursery.start_soon(read, runtime)
            await _until(lambda: shown >= STREAMS)
            began, before_cpu = time.perf_counter(), cpu_seconds()
            nursery.cancel_scope.cancel()
        await _until(lambda: tasks() <= before and _busy(runtime) == 0)
        wall, cpu = time.perf_counter() - began, cpu_seconds() - before_cpu
        return wall, cpu, tasks() - before, _busy(runtime)


async def _until(true: Callable[[], bool]) -> None:
    with trio.move_on_after(60):
        while not true():  # noqa: ASYNC110 - occasional polling is cheap here
            await trio.sleep(0.002)


def _busy(runtime: Runtime) -> int:
    """Return the number of connections that are open and not idle."""
    found = [one.exchange for one in runtime.statistics().endpoints]
    return sum(
        one.connections.open - one.connections.idle
        for one in found
        if one is not None and one.connections is not None
    )


if __name__ == "__main__":
    main()

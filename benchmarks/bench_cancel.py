"""Cancelling many live streams at once: how long until nothing of them is left.

What counts is the time from the cancel until every run is joined, no connection is open, and as
many tasks live as before.
"""

import math
import time
from typing import Final

import trio
import trio.testing

from agent_actors import AgentOptions, open_runtime
from agent_actors.runtime.runtime import Runtime
from benchmarks.endpoint import pin
from benchmarks.harness import QUICK, endpoint, report

STREAMS: Final = 200 if QUICK else 1000


def main() -> None:
    """Measure."""
    pin(0)
    with endpoint() as served:
        wall, tasks, connections = trio.run(_measure, f"{served.url}/paced/1/1000/v1")
    rows = {f"{STREAMS} streams": {"value": wall * 1e3}}
    report(
        "cancel",
        "From the cancel of all streams to all quiet",
        "ms",
        rows,
        tasks_left=tasks,
        connections_left=connections,
    )
    print(f"  {tasks} tasks and {connections} connections left")


async def _measure(url: str) -> tuple[float, int, int]:
    options = AgentOptions(model="m", base_url=url)
    shown = 0

    async def read(runtime: Runtime) -> None:
        nonlocal shown
        async with runtime.stream("Go.", options) as events:
            async for event in events:
                shown += event.type == "assistant.delta"

    async with open_runtime(streams_per_endpoint=math.inf) as runtime:
        with trio.move_on_after(0.1):  # so that the endpoint's actor is there
            await read(runtime)
        shown = 0
        before = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for _ in range(STREAMS):
                nursery.start_soon(read, runtime)
            while shown < STREAMS:  # noqa: ASYNC110 - a look now and then costs nothing here
                await trio.sleep(0.05)
            began = time.perf_counter()
            nursery.cancel_scope.cancel()
        wall = time.perf_counter() - began
        await trio.testing.wait_all_tasks_blocked()  # what watched the streams ends by itself
        tasks = trio.lowlevel.current_statistics().tasks_living - before
        found = [one.exchange for one in runtime.statistics().endpoints]
        connections = sum(
            one.connections.open - one.connections.idle
            for one in found
            if one is not None and one.connections is not None
        )
    return wall, tasks, connections


if __name__ == "__main__":
    main()

"""Memory: what an open stream takes, its reader's task included, and an idle session.

An open stream is one that has shown its first delta and waits for the next. An idle session has run
one turn of ten deltas, and is in memory; its records are measured by themselves.
"""

import gc
import math
import tracemalloc
from pathlib import Path
from typing import Final

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.runtime.runtime import Runtime
from benchmarks.harness import QUICK, endpoint, report

STREAMS: Final = 500 if QUICK else 3000
SESSIONS: Final = 500 if QUICK else 3000


def main() -> None:
    """Measure."""
    with endpoint() as served:
        stream, task = trio.run(_streams, f"{served.url}/paced/0.2/1000/v1")
        session, records = trio.run(_sessions, f"{served.url}/burst/10/10/v1")
    rows = {
        "an open stream, with its reader's task": {"value": stream / 1e3},
        "a parked task of trio": {"value": task / 1e3},
        "an idle session, beyond its records": {"value": (session - records) / 1e3},
        "the records of one turn": {"value": records / 1e3},
    }
    report("memory", "Memory", "kB", rows)


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


async def _streams(url: str) -> tuple[float, float]:
    options = AgentOptions(model="m", base_url=url)
    shown = 0

    async def read(runtime: Runtime) -> None:
        nonlocal shown
        async with runtime.stream("Go.", options) as events:
            async for event in events:
                shown += event.type == "assistant.delta"

    async with (
        open_runtime(streams_per_endpoint=math.inf, drain=0) as runtime,
        trio.open_nursery() as nursery,
    ):
        for _ in range(100):
            nursery.start_soon(read, runtime)
        while shown < 100:  # noqa: ASYNC110 - a look now and then costs nothing here
            await trio.sleep(0.1)
        before = resident()
        for _ in range(STREAMS):
            nursery.start_soon(read, runtime)
        while shown < 100 + STREAMS:  # noqa: ASYNC110 - as above
            await trio.sleep(0.1)
        streams = resident() - before
        before = resident()
        for _ in range(STREAMS):
            nursery.start_soon(trio.sleep_forever)
        await trio.sleep(0.3)  # the streams go on meanwhile: nothing is ever quiet
        tasks = resident() - before
        nursery.cancel_scope.cancel()
    return streams / STREAMS, tasks / STREAMS


async def _sessions(url: str) -> tuple[float, float]:
    options = AgentOptions(model="m", base_url=url)
    async with open_runtime(max_sessions=2 * SESSIONS + 100) as runtime:
        for _ in range(50):
            await runtime.run("Go.", options)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(SESSIONS):
            await runtime.run("Go.", options)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
        records = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, "*/session_log.py"), tracemalloc.Filter(True, "<attrs*")]
        )
        recorded = sum(line.size for line in records.statistics("filename"))
        tracemalloc.stop()
    return held / SESSIONS, recorded / SESSIONS


if __name__ == "__main__":
    main()

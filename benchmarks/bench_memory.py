"""Memory of an open stream, including the task that reads it, and of an idle session.

An open stream has received its first delta and waits for the next one. An idle session has
completed its turns of ten deltas and is kept in memory. Sessions with one turn and with three turns
are measured; the difference gives the memory of a turn. The memory of a session without its records
is the memory of a session with one turn minus the memory of a turn. A session of 20 messages is
measured as well.

Each round runs in a separate process, because a process reuses memory that it has freed.
"""

import gc
import json
import math
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.runtime.runtime import Runtime
from benchmarks.harness import ROOT, endpoint
from benchmarks.record import QUICK, ROUNDS, report, row

STREAMS: Final = 500 if QUICK else 3000
SESSIONS: Final = 500 if QUICK else 3000
LONG_SESSIONS: Final = 50 if QUICK else 300
MESSAGES: Final = 20
FIRST: Final = 100
"""The number of streams that are opened before the measurement, to allocate what all streams share.
"""


def main() -> None:
    """Run the benchmark."""
    if len(sys.argv) > 1:
        print(json.dumps(_round(sys.argv[1])))
        return
    with endpoint() as served:
        command = [sys.executable, "-m", "benchmarks.bench_memory", served.url]
        rounds = min(ROUNDS, 3)
        found = [
            json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
            for _ in range(rounds)
        ]
    rows = {name: row([one[name] / 1e3 for one in found]) for name in found[0]}
    report("memory", "Memory", "kB", rows)


def _round(url: str) -> dict[str, float]:
    stream, task = trio.run(_streams, f"{url}/paced/0.2/1000/v1")
    answer = f"{url}/burst/10/10/v1"
    once, thrice = trio.run(_sessions, answer, 1), trio.run(_sessions, answer, 3)
    long = trio.run(_sessions, answer, MESSAGES // 2, LONG_SESSIONS)
    records = (thrice - once) / 2
    return {
        "an open stream, with its reader's task": stream,
        "a parked task of trio": task,
        "an idle session, beyond its records": once - records,
        "the records of one turn": records,
        f"a live session of {MESSAGES} messages": long,
    }


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _streams(url: str) -> tuple[float, float]:
    """Return the bytes of an open stream, and of a task that does nothing."""
    options = AgentOptions(model="m", base_url=url)
    shown = 0

    async def read(runtime: Runtime) -> None:
        nonlocal shown
        fresh = True
        async with runtime.stream("Go.", options) as events:
            async for event in events:
                if fresh and event.type == "assistant.delta":
                    fresh, shown = False, shown + 1

    async with (
        open_runtime(streams_per_endpoint=math.inf, drain=0) as runtime,
        trio.open_nursery() as nursery,
    ):
        for _ in range(FIRST):
            nursery.start_soon(read, runtime)
        await _until(lambda: shown >= FIRST)
        before = resident()
        for _ in range(STREAMS):
            nursery.start_soon(read, runtime)
        await _until(lambda: shown >= FIRST + STREAMS)
        streams = resident() - before
        before = resident()
        for _ in range(STREAMS):
            nursery.start_soon(trio.sleep_forever)
        # The streams keep sending, so there is never a moment when all tasks are blocked.
        await trio.sleep(0.3)
        tasks = resident() - before
        nursery.cancel_scope.cancel()
    return streams / STREAMS, tasks / STREAMS


async def _sessions(url: str, turns: int, count: int = SESSIONS) -> float:
    """Return the bytes of a session that has run this number of turns."""
    options = AgentOptions(model="m", base_url=url)
    async with open_runtime(max_sessions=2 * SESSIONS) as runtime:
        for _ in range(50):
            await runtime.run("Go.", options)
        gc.collect()
        tracemalloc.start()
        for number in range(count):
            for _ in range(turns):
                await runtime.run("Go.", options, session_id=f"s{number}")
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return held / count


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - occasional polling is cheap here
        await trio.sleep(0.05)


if __name__ == "__main__":
    main()

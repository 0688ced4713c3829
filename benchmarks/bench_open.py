"""CPU to open and cancel a stream, one of many, with the default collector and after `tune_gc()`.

A stream is open when its first delta has arrived. Each measurement runs in a separate process,
because `tune_gc` changes the whole process.
"""

import json
import math
import subprocess
import sys
from functools import partial
from typing import Final

import trio

from agent_actors import AgentOptions, open_runtime, tune_gc
from agent_actors.runtime.runtime import Runtime
from benchmarks.endpoint import cpu_seconds, pin
from benchmarks.harness import ROOT, endpoint
from benchmarks.record import QUICK, ROUNDS, report, take_turns

STREAMS: Final = 500 if QUICK else 5000
DEFAULT: Final = "default collector"
TUNED: Final = "after tune_gc()"


def main() -> None:
    """Run the benchmark."""
    if len(sys.argv) > 1:
        url, name, step = sys.argv[1:]
        print(json.dumps(_process(url, name)[step]))
        return
    for step in ("open", "cancel"):
        with endpoint() as served:
            url = served.base_url("paced/0.2/1000")
            measures = {name: partial(_cpu, url, name, step) for name in (DEFAULT, TUNED)}
            rows = take_turns(measures, rounds=min(ROUNDS, 5), scale=1e6)
        report(f"{step}_gc", f"CPU to {step} a stream, one of {STREAMS}", "µs", rows)


def _cpu(url: str, name: str, step: str) -> float:
    command = [sys.executable, "-m", "benchmarks.bench_open", url, name, step]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(json.loads(done.stdout))


def _process(url: str, name: str) -> dict[str, float]:
    pin(0)
    if name == TUNED:
        tune_gc()
    return trio.run(_measure, url)


async def _measure(url: str) -> dict[str, float]:
    """Return the CPU seconds per stream of each step."""
    options = AgentOptions(model="m", base_url=url)
    shown = 0

    async def read(runtime: Runtime) -> None:
        nonlocal shown
        first = True
        async with runtime.stream("Go.", options) as events:
            async for event in events:
                if first and event.type == "assistant.delta":
                    first, shown = False, shown + 1

    async with open_runtime(streams_per_endpoint=math.inf, drain=0) as runtime:
        began = cpu_seconds()
        async with trio.open_nursery() as nursery:
            for _ in range(STREAMS):
                nursery.start_soon(read, runtime)
            while shown < STREAMS:  # noqa: ASYNC110 - occasional polling is cheap here
                await trio.sleep(0.05)
            opened = cpu_seconds()
            nursery.cancel_scope.cancel()
        ended = cpu_seconds()
    return {"open": (opened - began) / STREAMS, "cancel": (ended - opened) / STREAMS}


if __name__ == "__main__":
    main()

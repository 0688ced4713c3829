"""A long run of many sessions, during which memory, descriptors and tasks must not grow.

`python -m benchmarks.soak --runs 100000` does the given number of runs, 100 concurrently. Most of
them have two turns with a tool; some are cancelled in the middle of their stream. Each run uses a
new session, and only a few sessions stay in memory. Samples are printed during the run. The program
fails if the second half used more of any resource than the first half. The descriptors of open
connections are subtracted, because the number of idle connections that are kept varies.
"""

import argparse
import gc
import os
import random
import sys
from typing import Final

import attrs
import trio
import trio.testing

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.runtime.runtime import Runtime
from benchmarks.bench_memory import resident
from benchmarks.endpoint import pin
from benchmarks.harness import endpoint
from benchmarks.record import report, row

AT_ONCE: Final = 100
SAMPLES: Final = 20
SESSIONS_KEPT: Final = 200
CANCELLED: Final = 0.05

LEAK_ALLOWED: Final = 10
"""Maximum growth of memory per run, in bytes: less than the smallest object that could leak."""
SLACK: Final = 1_000_000
"""Additional bytes that the allocator may use."""


@attrs.frozen
class Sample:
    """The resources of the process at a moment without active runs.

    Attributes:
        runs: The number of runs so far.
        memory: Resident bytes.
        descriptors: Open descriptors, except those of the runtime's connections.
        tasks: Existing trio tasks.
    """

    runs: int
    memory: int
    descriptors: int
    tasks: int


@tool
async def work(item: int) -> str:
    """Do some work."""
    return f"done {item}"


def main() -> int:
    """Run the benchmark. Return 1 as the exit status if something grew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--runs", type=int, default=100_000, help="number of runs (default: 100000)"
    )
    runs = max(SAMPLES, int(parser.parse_args().runs))
    pin(0)
    with endpoint() as served:
        samples = trio.run(_soak, served.url, runs)
    grown = faults_of(samples)
    rows = {
        f"{one.runs} runs": {
            **row([one.memory / 1e6]),
            "descriptors": one.descriptors,
            "tasks": one.tasks,
        }
        for one in samples
    }
    report("soak", "Memory by number of runs", "MB", rows, faults=grown)
    for fault in grown:
        print(f"  {fault}")
    return 1 if grown else 0


def faults_of(samples: list[Sample]) -> list[str]:
    """Describe the growth. Skips the first sample, because modules are still being loaded."""
    half = len(samples) // 2
    first, second = samples[1:half], samples[half:]
    faults: list[str] = []
    memory = [max(one.memory for one in part) for part in (first, second)]
    runs = samples[-1].runs - samples[half - 1].runs
    if memory[1] > memory[0] + SLACK + LEAK_ALLOWED * runs:
        faults.append(f"memory grew from {memory[0] / 1e6:.1f} MB to {memory[1] / 1e6:.1f} MB")
    for name in ("descriptors", "tasks"):
        most = [max(getattr(one, name) for one in part) for part in (first, second)]
        if most[1] > most[0]:
            faults.append(f"{name} grew from {most[0]} to {most[1]}")
    return faults


async def _soak(url: str, runs: int) -> list[Sample]:
    tools = AgentOptions(model="m", base_url=f"{url}/tools/2/20/v1", tools=[work])
    slow = AgentOptions(model="m", base_url=f"{url}/paced/100/1000/v1")
    chance, samples = random.Random(1), list[Sample]()
    async with open_runtime(max_sessions=SESSIONS_KEPT) as runtime:
        for number in range(SAMPLES):
            left = runs // SAMPLES

            async def worker(number: int) -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    session_id = f"s{number}-{left}"
                    if chance.random() < CANCELLED:
                        with trio.move_on_after(chance.random() / 20):
                            await runtime.run("Go.", slow, session_id=session_id)
                    else:
                        async with runtime.stream("Go.", tools, session_id=session_id) as events:
                            async for _ in events:
                                pass

            async with trio.open_nursery() as nursery:
                for _ in range(AT_ONCE):
                    nursery.start_soon(worker, number)
            await trio.testing.wait_all_tasks_blocked(0.01)
            samples.append(_sample(runtime, (number + 1) * (runs // SAMPLES)))
            print(f"  {samples[-1]}", flush=True)
    return samples


def _sample(runtime: Runtime, runs: int) -> Sample:
    gc.collect()
    found = [one.exchange for one in runtime.statistics().endpoints]
    connections = sum(
        one.connections.open for one in found if one is not None and one.connections is not None
    )
    return Sample(
        runs,
        resident(),
        len(os.listdir("/proc/self/fd")) - connections,  # noqa: PTH208 - a directory of the kernel
        trio.lowlevel.current_statistics().tasks_living,
    )


if __name__ == "__main__":
    sys.exit(main())

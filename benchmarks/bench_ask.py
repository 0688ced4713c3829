"""What the actor contract costs: an ask through a worker, and an uncontended gate, beside a hop.

The floor is a value sent through a trio memory channel and back by a task that loops.
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from agent_actors.actors._owner import Owner
from agent_actors.actors.session_gate import SessionGate
from benchmarks.endpoint import pin
from benchmarks.harness import QUICK, ROUNDS, report

ASKS: Final = 2_000 if QUICK else 20_000


async def channel_round_trip() -> None:
    """The floor: there and back through two channels."""
    there, requests = trio.open_memory_channel[int](16)
    answers, back = trio.open_memory_channel[int](16)

    async def echo() -> None:
        async for number in requests:
            await answers.send(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo)
        for number in range(ASKS):
            await there.send(number)
            await back.receive()
        there.close()


async def ask() -> None:
    """A request, a worker, a reply."""
    owner = Owner("bench")

    async def work() -> int:
        return 1

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.serve)
        for _ in range(ASKS):
            await owner.ask(work)
        owner.close()


async def gate() -> None:
    """Take a free session and give it back."""
    one = SessionGate()
    for number in range(ASKS):
        with one.acquire_nowait(f"s{number}", "run"):
            pass


CONTENDERS: Final[dict[str, Callable[[], Awaitable[None]]]] = {
    "memory channel, there and back": channel_round_trip,
    "ask through a worker": ask,
    "gate, acquire and release": gate,
}


def main() -> None:
    """Measure."""
    pin(0)
    spent: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(ROUNDS):
        for name, contender in CONTENDERS.items():
            before = time.process_time()
            trio.run(contender)
            spent[name].append((time.process_time() - before) / ASKS)
    base = next(iter(CONTENDERS))
    rows: dict[str, dict[str, object]] = {}
    for name, costs in spent.items():
        ratios = [one / other for one, other in zip(costs, spent[base], strict=True)]
        rows[name] = {
            "value": statistics.median(costs) * 1e6,
            "ratio": statistics.median(ratios),
            "ratios": ratios,
        }
    report("ask", "CPU per ask", "µs", rows)


if __name__ == "__main__":
    main()

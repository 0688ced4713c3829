"""The cost of actors: a request through a worker task, and an uncontended session gate.

The baseline is a value that is sent through a trio memory channel to a looping task and back.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from agent_actors.actors.session_gate import SessionGate
from agent_actors.kernel.actor_loop import ActorLoop
from benchmarks.endpoint import pin
from benchmarks.record import QUICK, report, take_turns

ASKS: Final = 2_000 if QUICK else 20_000


async def channel_round_trip() -> None:
    """Send a value through two channels, to a task and back (the baseline)."""
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
    """Send a request to a worker and wait for its reply."""
    owner = ActorLoop("bench")

    async def work() -> int:
        return 1

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.serve)
        for _ in range(ASKS):
            await owner.ask(work)
        owner.close()


async def gate() -> None:
    """Acquire and release a free session."""
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
    """Run the benchmark."""
    pin(0)
    contenders = {name: partial(_timed, contender) for name, contender in CONTENDERS.items()}
    report("ask", "CPU per ask", "µs", take_turns(contenders, scale=1e6))


def _timed(contender: Callable[[], Awaitable[None]]) -> float:
    before = time.process_time()
    trio.run(contender)
    return (time.process_time() - before) / ASKS


if __name__ == "__main__":
    main()

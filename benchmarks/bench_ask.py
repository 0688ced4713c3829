"""What the actor contract costs: an ask through a worker, and an uncontended gate, beside a hop.

The floor is a value sent through a trio memory channel and back by a task that loops.
"""

import trio

from agent_actors.actors._owner import Owner
from agent_actors.actors.session_gate import SessionGate
from benchmarks.harness import compare

ASKS = 5_000


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


def main() -> None:
    """Compare them."""
    compare(
        "ask",
        {
            "memory channel, there and back": channel_round_trip,
            "ask through a worker": ask,
            "gate, acquire and release": gate,
        },
        per=ASKS,
        unit="ask",
    )


if __name__ == "__main__":
    main()

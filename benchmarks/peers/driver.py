"""What the peers' programs share: they run in environments of their own, without ours.

Each program is `<environment's python> benchmarks/peers/use_<peer>.py <work as JSON>`: it does so
many turns, so many at once, by the peer's documented way to stream an answer, and prints what it
cost as one line of JSON. Clients and agents are made, and one turn done, before the clock starts.
What it has read is counted by the words of the answers, one a delta, since some peers join deltas.
A turn that does not end in time is given up and counted; it costs the peer nothing.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable

Turn = Callable[[], Awaitable[str]]


DEADLINE = 30.0
"""Seconds for one turn: many times what the slowest peer needs with all turns side by side."""


def main(make: Callable[[str, bool], Turn]) -> None:
    """Do the work that the command line tells of.

    Args:
        make: Makes a turn: told the endpoint's base URL, and whether there are tools to call; the
            turn returns the text of the answer.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    work = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(_share(make, work))))


async def _share(make: Callable[[str, bool], Turn], work: dict[str, object]) -> dict[str, object]:
    url, warm = str(work["url"]), str(work["warm"])
    tools = "/tools/" in url
    await make(warm, tools)()
    turn = make(url, tools)
    left, words, hung = int(str(work["turns"])), 0, 0
    before, began = _cpu(), time.perf_counter()
    ended = began

    async def worker() -> None:
        nonlocal left, words, hung, ended
        while left:
            left -= 1
            try:
                async with asyncio.timeout(DEADLINE):
                    text = await turn()
            except TimeoutError:
                hung += 1
            else:
                words += len(text.split())
                ended = time.perf_counter()

    await asyncio.gather(*(worker() for _ in range(int(str(work["at_once"])))))
    return {"cpu": _cpu() - before, "wall": ended - began, "count": words, "hung": hung}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

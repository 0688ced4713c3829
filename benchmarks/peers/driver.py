"""What the peers' programs share: they run in environments of their own, without ours.

Each program is `<environment's python> benchmarks/peers/<peer>.py <work as JSON>`: it does so many
turns, so many at once, by the peer's documented way to stream an answer, and prints what it cost as
one line of JSON. What it has read is counted by the words of the answers, one a delta, since some
peers join deltas.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable

Turn = Callable[[], Awaitable[str]]


def main(make: Callable[[str, bool], Turn]) -> None:
    """Do the work that the command line tells of.

    Args:
        make: Makes a turn: told the endpoint's base URL, and whether there are tools to call; the
            turn returns the text of the answer.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    work = json.loads(sys.argv[1])
    before, began = _cpu(), time.perf_counter()
    count = asyncio.run(_share(make, work))
    cost = {"cpu": _cpu() - before, "wall": time.perf_counter() - began, "count": count}
    print(json.dumps(cost))


async def _share(make: Callable[[str, bool], Turn], work: dict[str, object]) -> int:
    url = str(work["url"])
    turn = make(url, "/tools/" in url)
    left, words = int(str(work["turns"])), 0

    async def worker() -> None:
        nonlocal left, words
        while left:
            left -= 1
            text = await turn()
            words += len(text.split())

    await asyncio.gather(*(worker() for _ in range(int(str(work["at_once"])))))
    return words


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

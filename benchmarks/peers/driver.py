"""Shared code of the peers' programs, which run in separate environments without agent_actors.

Each program is `<environment's python> benchmarks/peers/use_<peer>.py <work as JSON>`. It runs the
given turns with the given concurrency, streams each response in the way that the peer documents,
and prints the cost as one line of JSON. Before the clock starts, the program creates clients and
agents, and runs one turn. Deltas are counted by the words of the responses, one word per delta,
because some peers join deltas. A turn that misses its deadline is aborted and counted as hung; its
time does not count.
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
"""Time limit, in seconds, for one turn: many times what the slowest peer needs under full load."""


def main(make: Callable[[str, bool], Turn]) -> None:
    """Do the work that the command line describes.

    Args:
        make: Creates a turn from the endpoint's base URL and True if there are tools to call. The
            turn returns the text of the response.
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

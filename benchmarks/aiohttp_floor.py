# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# The libraries come with the extra `bench`, which `make check` does not install.
"""The baseline on another event loop: aiohttp on uvloop, with the same splitting and decoding."""

import asyncio

import aiohttp
import uvloop

from benchmarks.contenders import Clock, Splitter, bodies_for
from benchmarks.harness import Cost, Work


def run(work: Work) -> Cost:
    """Do the work, and return its cost."""
    return uvloop.run(_share(work))


async def _share(work: Work) -> Cost:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def turn(url: str) -> int:
            count = 0
            for body in bodies_for(url):
                split = Splitter()
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    async for data in response.content.iter_any():
                        split.feed(data)
                count += len(split.texts)
            return count

        await turn(work.warm)
        clock, left, count = Clock(), work.turns, 0

        async def worker() -> None:
            nonlocal left, count
            while left:
                left -= 1
                seen = await turn(work.url)
                count += seen

        await asyncio.gather(*(worker() for _ in range(work.at_once)))
        return clock.cost(count)

"""The runtime in an asyncio program, through `agent_actors.asyncio`."""

import asyncio
import math
from collections.abc import Callable

from agent_actors import AgentOptions
from agent_actors.asyncio import open_runtime
from benchmarks.contenders import Clock
from benchmarks.harness import Cost, Work


def run(work: Work, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> Cost:
    """Do the work once."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(_share(work))


async def _share(work: Work) -> Cost:
    options = {url: AgentOptions(model="m", base_url=url) for url in (work.url, work.warm)}
    async with open_runtime(streams_per_endpoint=math.inf) as runtime:

        async def turn(url: str) -> int:
            seen = 0
            async with runtime.stream("Go.", options[url]) as events:
                async for event in events:
                    seen += event.type == "assistant.delta"
            return seen

        await turn(work.warm)
        clock, left, count = Clock(), work.turns, 0

        async def worker() -> None:
            nonlocal left, count
            while left:
                left -= 1
                seen = await turn(work.url)  # `count += await ...` would read `count` too early
                count += seen

        async with asyncio.TaskGroup() as group:
            for _ in range(work.at_once):
                group.create_task(worker())
        return clock.cost(count)

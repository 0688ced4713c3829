"""The time to the first token that the runtime adds to bare httpx, with one stream at a time."""

import statistics
import time
from typing import Final

import httpx
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.runtime.runtime import Runtime
from benchmarks.endpoint import pin
from benchmarks.harness import endpoint
from benchmarks.record import QUICK, ROUNDS, report, row

TURNS: Final = 50 if QUICK else 200
"""The number of turns per contender in one round, alternating."""
_BODY: Final[dict[str, object]] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "Go."}],
}


def main() -> None:
    """Run the benchmark."""
    pin(0)
    with endpoint() as served:
        found = [trio.run(_round, served.base_url("burst/1/1")) for _ in range(ROUNDS)]
    bare, ours = ([one[at] * 1e3 for one in found] for at in (0, 1))
    added = [one - other for one, other in zip(ours, bare, strict=True)]
    rows = {"httpx": row(bare, bare), "agent_actors": row(ours, bare), "added": row(added)}
    report("first_token", "Time to first token, from the call", "ms", rows)


async def _round(url: str) -> tuple[float, float]:
    """Return the medians of bare httpx and of the runtime, in seconds."""
    options = AgentOptions(model="m", base_url=url)
    bare: list[float] = []
    ours: list[float] = []
    async with httpx.AsyncClient() as client, open_runtime() as runtime:
        for _ in range(TURNS):
            bare.append(await _httpx(client, f"{url}/chat/completions"))
            ours.append(await _runtime(runtime, options))
    # The first turn of each contender opens a connection and imports modules.
    return statistics.median(bare[1:]), statistics.median(ours[1:])


async def _httpx(client: httpx.AsyncClient, url: str) -> float:
    began, first = time.perf_counter(), 0.0
    async with client.stream("POST", url, json=_BODY) as response:
        async for _ in response.aiter_raw():
            first = first or time.perf_counter() - began
    return first


async def _runtime(runtime: Runtime, options: AgentOptions) -> float:
    began, first = time.perf_counter(), 0.0
    async with runtime.stream("Go.", options) as events:
        async for event in events:
            if event.type == "assistant.delta":
                first = first or time.perf_counter() - began
    return first


if __name__ == "__main__":
    main()

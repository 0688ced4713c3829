"""Latency of a delta at 100 paced streams: from the endpoint's write until a reader has it.

The endpoint writes the current time of its monotonic clock as the text of each delta. All processes
of a machine share this clock. Bare httpx reads the same streams.
"""

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import httpx
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.events import AssistantDelta
from benchmarks.contenders import BODY, Splitter
from benchmarks.endpoint import pin
from benchmarks.harness import ROOT, endpoint
from benchmarks.record import QUICK, ROUNDS, report, row

STREAMS: Final = 100
PER_SECOND: Final = 50
DELTAS: Final = 50 if QUICK else 250

OPENING: Final = 10
"""The number of deltas per stream that are not counted, because other streams are being opened."""

Turn = Callable[[], Awaitable[list[float]]]
"""Reads one stream and returns the latency of each delta, in seconds."""


def main() -> None:
    """Run the benchmark."""
    if len(sys.argv) > 1:
        name, url = sys.argv[1:]
        print(json.dumps(trio.run(MEASURES[name], url)))
        return
    found: dict[str, list[list[float]]] = {name: [] for name in MEASURES}
    with endpoint() as served:
        url = served.base_url(f"timed/{PER_SECOND}/{DELTAS}")
        for _ in range(ROUNDS):
            for name, rounds in found.items():
                command = [sys.executable, "-m", "benchmarks.bench_latency", name, url]
                done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
                rounds.append(sorted(json.loads(done.stdout)))
    for share in (50, 99):
        figures = {
            name: [statistics.quantiles(one, n=100)[share - 1] * 1e3 for one in rounds]
            for name, rounds in found.items()
        }
        rows = {name: row(rounds, figures["httpx"]) for name, rounds in figures.items()}
        title = f"latency of a delta, {STREAMS} streams of {PER_SECOND} per second, p{share}"
        report(f"latency_p{share}", title, "ms", rows)


async def _runtime(url: str, *, read_tick: float) -> list[float]:
    options = AgentOptions(model="m", base_url=url)
    async with open_runtime(streams_per_endpoint=math.inf, read_tick=read_tick) as runtime:

        async def turn() -> list[float]:
            async with runtime.stream("Go.", options) as events:
                return [
                    time.monotonic() - float(event.text)
                    async for event in events
                    if isinstance(event, AssistantDelta)
                ]

        return await _all(turn)


async def _httpx(url: str) -> list[float]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:

        async def turn() -> list[float]:
            split, late = Splitter(), list[float]()
            async with client.stream("POST", f"{url}/chat/completions", json=BODY) as response:
                async for data in response.aiter_raw():
                    split.feed(data)
                    now = time.monotonic()
                    late += [now - float(text) for text in split.texts[len(late) :]]
            return late

        return await _all(turn)


async def _all(turn: Turn) -> list[float]:
    pin(0)
    found: list[float] = []

    async def read() -> None:
        late = await turn()
        found.extend(late[OPENING:])

    async with trio.open_nursery() as nursery:
        for _ in range(STREAMS):
            nursery.start_soon(read)
    return found


MEASURES: Final[dict[str, Callable[[str], Awaitable[list[float]]]]] = {
    "httpx": _httpx,
    "agent_actors": partial(_runtime, read_tick=0.002),
    "agent_actors, read_tick=0": partial(_runtime, read_tick=0),
}


if __name__ == "__main__":
    main()

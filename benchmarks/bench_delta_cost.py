"""What a streamed delta costs: the whole runtime, read by a consumer, beside bare httpx.

Bare httpx reads the body and splits it at blank lines, and does nothing with it: a floor, not a
rival. The runtime has a gate, a log, events and a reader.
"""

from functools import partial

import httpx
import trio

from agent_actors import AgentOptions, open_runtime
from benchmarks.harness import compare, endpoint

STREAMS = 20
DELTAS = 100
EVERY = 0.01


async def bare_httpx(url: str) -> None:
    """The floor: `aiter_raw` and a split."""

    async def one(client: httpx.AsyncClient) -> None:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Go."}]}
        seen = 0
        rest = b""
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            async for data in response.aiter_raw():
                *events, rest = (rest + data).split(b"\n\n")
                seen += len(events)
        assert seen >= DELTAS

    async with httpx.AsyncClient(timeout=None) as client, trio.open_nursery() as nursery:
        for _ in range(STREAMS):
            nursery.start_soon(one, client)


async def runtime_stream(url: str) -> None:
    """The whole runtime, every event read."""
    options = AgentOptions(model="m", base_url=url)
    async with open_runtime() as runtime:

        async def one() -> None:
            seen = 0
            async with runtime.stream("Go.", options) as events:
                async for event in events:
                    seen += event.type == "assistant.delta"
            assert seen == DELTAS

        async with trio.open_nursery() as nursery:
            for _ in range(STREAMS):
                nursery.start_soon(one)


def main() -> None:
    """Paced, and as fast as the endpoint can."""
    for claim, every in (("delta_cost_paced", EVERY), ("delta_cost_coalesced", 0.0)):
        with endpoint(deltas=DELTAS, every=every) as url:
            compare(
                claim,
                {
                    "bare httpx": partial(bare_httpx, url),
                    "agent_actors, runtime.stream": partial(runtime_stream, url),
                },
                per=STREAMS * DELTAS,
                unit="delta",
            )


if __name__ == "__main__":
    main()

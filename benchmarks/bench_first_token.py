"""What the runtime adds to the time to the first token, beside bare httpx; one stream at a time."""

import statistics
import time
from typing import Final

import httpx
import trio

from agent_actors import AgentOptions, open_runtime
from benchmarks.endpoint import pin
from benchmarks.harness import QUICK, endpoint, report

TURNS: Final = 50 if QUICK else 400
_BODY: Final[dict[str, object]] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "Go."}],
}


def main() -> None:
    """Measure."""
    pin(0)
    with endpoint() as served:
        bare, ours = trio.run(_measure, f"{served.url}/burst/1/1/v1")
    rows = {
        "httpx": {"value": bare * 1e3, "ratio": 1.0},
        "agent_actors": {"value": ours * 1e3, "ratio": ours / bare},
    }
    report("first_token", "Time to the first token, from the call on", "ms", rows)


async def _measure(url: str) -> tuple[float, float]:
    options = AgentOptions(model="m", base_url=url)
    bare: list[float] = []
    ours: list[float] = []
    async with httpx.AsyncClient() as client, open_runtime() as runtime:
        for _ in range(TURNS):
            began = time.perf_counter()
            async with client.stream("POST", f"{url}/chat/completions", json=_BODY) as response:
                first = True
                async for _ in response.aiter_raw():
                    if first:
                        bare.append(time.perf_counter() - began)
                        first = False
            began = time.perf_counter()
            async with runtime.stream("Go.", options) as events:
                first = True
                async for event in events:
                    if first and event.type == "assistant.delta":
                        ours.append(time.perf_counter() - began)
                        first = False
    return statistics.median(bare), statistics.median(ours)


if __name__ == "__main__":
    main()

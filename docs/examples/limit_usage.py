"""Limit the usage of a run and a session, and compute the cost."""

import os

import trio

from agent_actors import AgentOptions, Prices, UsageLimits, open_runtime

options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    limits=UsageLimits(requests=5, tool_calls=10, output_tokens=4000),
    session_limits=UsageLimits(requests=2, cost=0.5),
    prices=Prices(input=3.0, output=15.0, cache_read=0.3),
)


async def main() -> None:
    async with open_runtime() as runtime:
        for prompt in ("Hello.", "And again.", "And once more."):
            result = await runtime.run(prompt, options, session_id="s")
            print(f"{prompt} {result.stop_reason}, cost {result.cost:.6f}")


trio.run(main)

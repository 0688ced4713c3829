"""A hook that inspects each call before it runs, and refuses one."""

import os

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.hooks import HookContext, HookDecision, PreToolUseEvent


@tool
async def get_weather(city: str, units: str = "celsius") -> str:
    """Current weather of a city."""
    return f"18 degrees {units} and sunny in {city}"


async def not_everywhere(event: PreToolUseEvent, context: HookContext) -> HookDecision | None:
    print(f"asked for {event.tool_name} {event.tool_input}")
    if event.tool_input.get("city") == "city 1":
        return HookDecision(continue_=False, reason="that city is a secret")
    return None


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[get_weather],
    hooks={"pre_tool_use": not_everywhere},
)


async def main() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run("What is the weather in Paris and in Rome?", options)
    for one in result.tool_calls:
        print(one.input, one.content)


trio.run(main)

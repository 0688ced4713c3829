"""Stream the events of a run, from any OpenAI-compatible endpoint."""

import os

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.events import AssistantDelta, AssistantMessage, ToolResult, ToolUse


@tool
async def get_weather(city: str) -> dict[str, object]:
    """Current weather.

    Args:
        city: Name of the city.
    """
    await trio.sleep(0.1)
    return {"city": city, "degrees": 18}


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    system_prompt="You are helpful.",
    tools=[get_weather],
)


async def main() -> None:
    async with (
        open_runtime() as runtime,
        runtime.stream("Weather in Paris and Rome?", options, session_id="s1") as events,
    ):
        async for event in events:
            match event:
                case AssistantDelta(text=text):
                    print(text, end="", flush=True)
                case AssistantMessage():
                    print()
                case ToolUse(name=name, input=arguments):
                    print(f"-> {name}({arguments})")
                case ToolResult(name=name, content=content):
                    print(f"<- {name}: {content}")
                case _:
                    pass
        print(f"{events.result.stop_reason}, {events.result.usage.total_tokens} tokens")


trio.run(main)

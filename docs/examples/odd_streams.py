"""Show details of a stream: argument fragments, notices and repaired calls."""

import os

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.events import StreamNotice, ToolDelta, ToolUse
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.profiles.profile import ProviderProfile

base_url = os.environ.get("BASE_URL", "http://localhost:1234/v1")
model = os.environ.get("MODEL", "qwen3-32b")


@tool
def weather(city: str) -> str:
    """Current weather of a city."""
    return f"It is sunny in {city}."


# A server that returns the model's calls as text, and accepts only short ids.
server = ProviderProfile(
    name="mine",
    base_url=base_url,
    dialect=ChatDialect(text_tool_calls="tags", short_call_ids=True),
)
options = AgentOptions(
    model=model, provider=server, tools=[weather], tool_deltas=True, allow_lenient_tool_json=True
)


async def main() -> None:
    async with open_runtime() as runtime, runtime.stream("Is it sunny in Rome?", options) as events:
        async for event in events:
            match event:
                case ToolDelta(name=name, partial_json=piece):
                    print(f"{name} <- {piece}")
                case ToolUse(name=name, input=arguments, repaired=repaired):
                    print(name, arguments, "(repaired)" if repaired else "")
                case StreamNotice(text=text):
                    print(f"odd: {text}")
                case _:
                    pass
    print(events.result.text)


trio.run(main)

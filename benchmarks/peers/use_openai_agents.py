"""openai-agents: an Agent with a chat completions model and a streamed run."""

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from driver import Turn, main
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
async def work(item: int) -> str:
    """Process an item."""
    return f"done {item}"


def make(url: str, tools: bool) -> Turn:
    client = AsyncOpenAI(base_url=url, api_key="not-needed", max_retries=0)
    agent = Agent(
        name="a",
        model=OpenAIChatCompletionsModel(model="m", openai_client=client),
        tools=[work] if tools else [],
    )

    async def turn() -> str:
        pieces = []
        result = Runner.run_streamed(agent, "Go.")
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == (
                "response.output_text.delta"
            ):
                pieces.append(event.data.delta)
        return "".join(pieces)

    return turn


main(make)

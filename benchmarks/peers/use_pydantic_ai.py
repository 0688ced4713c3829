"""pydantic-ai: an Agent with streamed events."""

from pydantic_ai import Agent, AgentRunResultEvent, PartDeltaEvent, PartStartEvent, TextPartDelta
from pydantic_ai.messages import TextPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from driver import Turn, main


async def work(item: int) -> str:
    """Process an item."""
    return f"done {item}"


def make(url: str, tools: bool) -> Turn:
    provider = OpenAIProvider(base_url=url, api_key="not-needed")
    agent = Agent(OpenAIChatModel("m", provider=provider), tools=[work] if tools else [])

    async def turn() -> str:
        pieces = []
        async with agent.run_stream_events("Go.") as events:
            async for event in events:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    pieces.append(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    pieces.append(event.delta.content_delta)
                elif isinstance(event, AgentRunResultEvent):
                    break
        return "".join(pieces)

    return turn


main(make)

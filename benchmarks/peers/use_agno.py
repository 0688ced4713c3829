"""agno: an Agent with an OpenAI-like model, with a streamed run."""

import os

os.environ["AGNO_TELEMETRY"] = "false"
from agno.agent import Agent
from agno.models.openai.like import OpenAILike

from driver import Turn, main


async def work(item: int) -> str:
    """Process an item."""
    return f"done {item}"


def make(url: str, tools: bool) -> Turn:
    model = OpenAILike(id="m", base_url=url, api_key="not-needed")
    agent = Agent(model=model, tools=[work] if tools else [], telemetry=False)

    async def turn() -> str:
        pieces = []
        async for event in agent.arun("Go.", stream=True):
            if event.event == "RunContent" and event.content:
                pieces.append(event.content)
        return "".join(pieces)

    return turn


main(make)

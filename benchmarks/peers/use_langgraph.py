"""langgraph: the agent that langchain builds on it, with ChatOpenAI and streamed messages."""

import os

os.environ["LANGSMITH_TRACING"] = "false"
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from driver import Turn, main


@tool
async def work(item: int) -> str:
    """Process an item."""
    return f"done {item}"


def make(url: str, tools: bool) -> Turn:
    model = ChatOpenAI(model="m", base_url=url, api_key="not-needed", streaming=True, max_retries=0)
    agent = create_agent(model, [work] if tools else [])

    async def turn() -> str:
        pieces = []
        given = {"messages": [("user", "Go.")]}
        async for chunk, _ in agent.astream(given, stream_mode="messages"):
            if isinstance(chunk, AIMessageChunk) and chunk.content:
                pieces.append(chunk.content)
        return "".join(pieces)

    return turn


main(make)

"""open-agent-sdk: `query`, or a `Client` that executes tools, as in its documentation."""

import os

from driver import Turn, main
from open_agent import AgentOptions, Client, TextBlock, query, tool
from open_agent import client as client_module

create_client = client_module.create_client


@tool("work", "Works.", {"item": int})
async def work(args: dict[str, object]) -> str:
    return f"done {args['item']}"


def make(url: str, tools: bool) -> Turn:
    options = AgentOptions(
        system_prompt="Be brief.",
        model="m",
        base_url=url,
        tools=[work] if tools else [],
        auto_execute_tools=tools,
    )
    if os.environ.get("SHARED_CLIENT"):
        # Needed to reuse connections, because the SDK creates a client for every query.
        shared = create_client(options)
        shared.close = _stay_open
        client_module.create_client = lambda _: shared
    return _with_tools(options) if tools else _plain(options)


def _plain(options: AgentOptions) -> Turn:
    async def turn() -> str:
        pieces = []
        async for message in query("Go.", options):
            pieces += [block.text for block in message.content if isinstance(block, TextBlock)]
        return "".join(pieces)

    return turn


def _with_tools(options: AgentOptions) -> Turn:
    async def turn() -> str:
        pieces = []
        async with Client(options) as client:
            await client.query("Go.")
            async for block in client.receive_messages():
                if isinstance(block, TextBlock):
                    pieces.append(block.text)
        return "".join(pieces)

    return turn


async def _stay_open() -> None:
    pass


main(make)

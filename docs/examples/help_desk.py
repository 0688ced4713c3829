"""A help desk: sort messages, answer them with tools, and keep the context small."""

import os

import trio

from agent_actors import (
    HOOK_POST_TOOL_USE,
    HOOK_PRE_TOOL_USE,
    HOOK_USER_PROMPT_SUBMIT,
    AgentOptions,
    Client,
    HookDecision,
    PostToolUseEvent,
    PreToolUseEvent,
    TextBlock,
    ToolUseBlock,
    UserPromptSubmitEvent,
    open_runtime,
    query,
    tool,
)
from agent_actors.context import estimate_tokens, truncate_messages

ORDERS = {"A1": "on its way", "B2": "lost"}
CARD = "4111 1111 1111 1111"


@tool("find_order", "Look up where an order is.", {"order": str})
async def find_order(arguments: dict[str, str]) -> dict[str, str]:
    return {"order": arguments["order"], "state": ORDERS.get(arguments["order"], "unknown")}


@tool("refund", "Refund an order.", {"order": str, "euros": int})
async def refund(arguments: dict[str, object]) -> str:
    return f"{arguments['euros']} euros were refunded for {arguments['order']}"


async def hide_cards(event: UserPromptSubmitEvent) -> HookDecision | None:
    if CARD not in event.prompt:
        return None
    return HookDecision(modified_prompt=event.prompt.replace(CARD, "a card"), reason="a card")


async def spell_orders(event: PreToolUseEvent) -> HookDecision | None:
    order = str(event.tool_input["order"]).upper()
    return HookDecision(modified_input={**event.tool_input, "order": order})


async def log(event: PostToolUseEvent) -> HookDecision | None:
    print(f"  {event.tool_name}({event.tool_input}) -> {event.tool_result}")
    return None


model = os.environ.get("MODEL", "qwen3-32b")
base_url = os.environ.get("BASE_URL", "http://localhost:1234/v1")
sorting = AgentOptions(
    system_prompt="Answer with one word: order or other.",
    model=model,
    base_url=base_url,
    temperature=0.0,
)
helping = AgentOptions(
    system_prompt="You are a help desk. Use the tools.",
    model=model,
    base_url=base_url,
    tools=[find_order, refund],
    hooks={
        HOOK_USER_PROMPT_SUBMIT: [hide_cards],
        HOOK_PRE_TOOL_USE: [spell_orders],
        HOOK_POST_TOOL_USE: [log],
    },
    auto_execute_tools=True,
    max_tool_iterations=4,
)


async def kind_of(message: str) -> str:
    word = ""
    async for answer in query(message, sorting):
        for block in answer.content:
            if isinstance(block, TextBlock):
                word += block.text
    return word


async def help_with(client: Client, message: str) -> str:
    await client.query(message)
    text = ""
    async for block in client.receive_messages():
        if isinstance(block, TextBlock):
            text += block.text
        elif isinstance(block, ToolUseBlock):
            print(f"  calls {block.name}")
    return text


async def main() -> None:
    async with open_runtime(), Client(helping) as client:
        for message in (
            "Where is order a1?",
            f"My order b2 never came. I paid with {CARD} and want my 80 euros back.",
            "Thank you!",
        ):
            print(await kind_of(message))
            if estimate_tokens(client.history) > 60:
                client.message_history = truncate_messages(client.history, keep=6)
            print(f"  {await help_with(client, message)}")
            print(f"  {len(client.history)} messages after {client.turn_count} turns")


trio.run(main)

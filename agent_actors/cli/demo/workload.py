"""The prompts and tools of a demo.

The tools wait as long as a look-up in another service would take: between 20 and 120 ms. The
duration depends only on the session and the item, so it is the same in every demo.
"""

from itertools import cycle, islice
from typing import Final
from zlib import crc32

import trio

from agent_actors import Tool, ToolContext, tool
from agent_actors.cli.demo.tally import ToolGauge

SYSTEM_PROMPT: Final = (
    "You answer from tools alone. Whenever you need several facts, you call all tools that you "
    "need at once, in one reply, and never one after the other."
)

# Milliseconds.
_SHORTEST_WAIT: Final = 20
_LONGEST_WAIT: Final = 120


def demo_tools(gauge: ToolGauge) -> tuple[Tool, ...]:
    """Return four tools that look something up; each call counts itself in `gauge`."""

    async def look_up(context: ToolContext, item: int) -> int:
        """Return a number that depends only on the session, the tool and the item."""
        found = crc32(f"{context.session_id}/{context.tool_name}/{item}".encode())
        milliseconds = _SHORTEST_WAIT + found % (_LONGEST_WAIT - _SHORTEST_WAIT)
        with gauge.ran():
            await trio.sleep(milliseconds / 1000)
        return found

    @tool
    async def get_price(item: int, context: ToolContext) -> dict[str, object]:
        """Return the price of an item, in euros.

        Args:
            item: Number of the item.
            context: The call.
        """
        return {"item": item, "euros": await look_up(context, item) % 500}

    @tool
    async def get_stock(item: int, context: ToolContext) -> dict[str, object]:
        """Return the number of units of an item in stock.

        Args:
            item: Number of the item.
            context: The call.
        """
        return {"item": item, "pieces": await look_up(context, item) % 100}

    @tool
    async def get_rating(item: int, context: ToolContext) -> dict[str, object]:
        """Return the buyers' rating of an item, from 1 to 5 stars.

        Args:
            item: Number of the item.
            context: The call.
        """
        return {"item": item, "stars": 1 + await look_up(context, item) % 5}

    @tool
    async def get_delivery(item: int, context: ToolContext) -> dict[str, object]:
        """Return the delivery time of an item, in days.

        Args:
            item: Number of the item.
            context: The call.
        """
        return {"item": item, "days": 1 + await look_up(context, item) % 14}

    return (get_price, get_stock, get_rating, get_delivery)


def demo_prompt(tools: int) -> str:
    """Return a prompt that asks the model to call this many tools at once."""
    if not tools:
        return "Say in three sentences what a warehouse does."
    questions = islice(cycle(("price", "stock", "rating", "delivery")), tools)
    facts = ", ".join(f"the {what} of item {item}" for item, what in enumerate(questions))
    return (
        f"I need {tools} facts: {facts}. Look them all up now, with {tools} tool calls in one "
        "reply, one for each fact. Then summarize in two sentences what is unusual."
    )

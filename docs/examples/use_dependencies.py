"""Give tools, hooks and functions of an agent typed dependencies, and replace them in a test."""

import attrs
import trio

from agent_actors import (
    AgentContext,
    AgentOptions,
    Guardrail,
    Hook,
    HookContext,
    HookDecision,
    PreToolUseEvent,
    ToolContext,
    open_runtime,
    tool,
)
from agent_actors.testing import ScriptedModel, call, say


@attrs.define(eq=False)
class Shop:
    """The objects of one request of a customer."""

    customer: str
    stock: dict[str, int]
    may_order: bool = True


@tool
async def order(item: str, ctx: ToolContext[Shop]) -> str:
    """Order an item."""
    ctx.deps.stock[item] -= 1
    return f"{item} ordered for {ctx.deps.customer}"


@tool(offered=lambda ctx: "tea" not in ctx.deps.stock)
def apologize() -> str:
    """Apologize for an empty shelf."""
    return "sorry"


def instructions(ctx: AgentContext[Shop]) -> str:
    return f"You serve {ctx.deps.customer}. In stock: {', '.join(ctx.deps.stock)}."


async def is_polite(text: str, ctx: AgentContext[Shop]) -> str | None:
    return "the customer is rude" if "!" in text else None


class OrdersOnly(Hook[Shop]):
    async def before_tool(
        self, event: PreToolUseEvent, ctx: HookContext[Shop]
    ) -> HookDecision | None:
        if ctx.deps.may_order:
            return None
        return HookDecision(continue_=False, reason=f"{ctx.deps.customer} may not order")


model = ScriptedModel(
    lambda request: (
        [say("Done.")]
        if request.messages.last_content().startswith("tea ordered")
        else [call("order", {"item": "tea"})]
    )
)
agent = AgentOptions(
    model="scripted",
    provider=model,
    system_prompt=instructions,
    tools=[order, apologize],
    hooks=OrdersOnly(),
    guardrails=Guardrail(is_polite),
    deps_type=Shop,
)


async def main() -> None:
    shop = Shop("Anna", {"tea": 3})
    async with open_runtime() as runtime:
        result = await runtime.run("Tea, please.", agent, deps=shop)
        refused = await runtime.run("Tea!", agent, deps=shop)
    print(result.text, shop.stock, model.requests[0].system_prompt)
    print(refused.stop_reason)


async def test_order_takes_item_from_stock() -> None:
    shop = Shop("Test", {"tea": 1})
    assert await order.execute({"item": "tea"}, deps=shop) == "tea ordered for Test"
    assert shop.stock == {"tea": 0}


trio.run(main)
trio.run(test_order_takes_item_from_stock)

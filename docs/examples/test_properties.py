"""A property test: whatever the model does, the account is correct, and each call has a result."""

from typing import cast

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_actors import AgentOptions, RunResult, ToolContext, ToolOutput, open_runtime, tool
from agent_actors.testing import ModelScript, ScriptedModel, Step, call


class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance


# The calls of one response run in parallel, except those of an exclusive tool.
@tool(exclusive=True)
async def withdraw(amount: int, ctx: ToolContext[Account]) -> ToolOutput:
    """Withdraw money."""
    before = ctx.deps.balance
    if not 0 < amount <= before:
        return ToolOutput(f"the balance is {before}", is_error=True)
    await trio.lowlevel.checkpoint()  # a database would be used here
    ctx.deps.balance = before - amount
    return ToolOutput("done")


async def result_of(script: ModelScript, account: Account) -> RunResult:
    agent = AgentOptions(
        model="scripted", provider=ScriptedModel(script), tools=[withdraw], deps_type=Account
    )
    async with open_runtime() as runtime:
        return await runtime.run("Go.", agent, deps=account)


# Some arguments have the wrong type or name, and some are not JSON.
arguments = (
    st.fixed_dictionaries({"amount": st.integers(-10, 120) | st.text(max_size=2)})
    | st.just({"sum": 1})
    | st.text("{}:,amount1", max_size=9)
)
responses = st.lists(arguments.map(lambda given: call("withdraw", given)), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(st.lists(responses, max_size=3))
def test_account_is_correct(turns: list[list[Step]]) -> None:
    account = Account(100)
    script: ModelScript = [*turns, "Done."]
    result = trio.run(result_of, script, account)
    withdrawn = [cast(int, one.input["amount"]) for one in result.tool_calls if not one.is_error]
    assert account.balance == 100 - sum(withdrawn) >= 0
    assert len(result.tool_calls) == sum(map(len, turns))
    assert all(one.content for one in result.tool_calls)


if __name__ == "__main__":
    test_account_is_correct()
    print("ok")

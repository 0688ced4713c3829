"""Let another task, for example an HTTP request handler, answer the question about a call."""

import trio

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.events import UserQuestion
from agent_actors.testing import ScriptedModel, call, say


@tool
async def transfer(to: str, amount: int) -> str:
    """Transfer money."""
    return f"{amount} to {to}"


# This script replaces a model, and calls a tool that needs approval.
model = ScriptedModel(
    [
        [
            call("transfer", {"to": "Ann", "amount": 20}),
            call("transfer", {"to": "Bo", "amount": 900}),
        ],
        say("Ann has it."),
    ]
)
options = AgentOptions(
    model="scripted",
    provider=model,
    tools=[transfer],
    permissions="default",
    question_timeout=3600,  # if there is no answer in time, the call is denied
)


async def boss(runtime: Runtime, asked: trio.MemoryReceiveChannel[UserQuestion]) -> None:
    """Answer the open questions; in a service, an HTTP request handler does this."""
    with asked:
        async for question in asked:
            amount = (question.tool_input or {}).get("amount")
            small = isinstance(amount, int) and amount <= 100
            print(f"{question.prompt} {'yes' if small else 'no'}")
            runtime.questions.answer(question.question_id, "yes" if small else "no")


async def main() -> None:
    send, receive = trio.open_memory_channel[UserQuestion](16)
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(boss, runtime, receive)
        with send:
            async with runtime.stream("Pay them.", options, session_id="s") as events:
                async for event in events:
                    if isinstance(event, UserQuestion):
                        await send.send(event)
        for one in events.result.tool_calls:
            print(one.input, one.content)


trio.run(main)

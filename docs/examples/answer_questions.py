"""Answer questions in another task, while fifty other sessions continue."""

import os

import attrs
import trio

from agent_actors import AgentOptions, PermissionPolicy, Question, Runtime, open_runtime, tool


@tool
async def delete_file(item: int) -> str:
    """Delete a file permanently."""
    return f"file {item} is gone"


others = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
)
careful = attrs.evolve(
    others, tools=[delete_file], permissions=PermissionPolicy(ask=["delete_file"])
)


def decide(question: Question) -> str:
    """Decide in place of a person; a web page or a chat can do the same."""
    print(f"{question.prompt} -> yes")
    return "yes"


async def answer_all(runtime: Runtime) -> None:
    while True:
        for question in runtime.questions.pending():
            runtime.questions.answer(question.id, decide(question))
        await trio.sleep(0.05)


async def main() -> None:
    async with open_runtime() as runtime, trio.open_nursery() as people:
        people.start_soon(answer_all, runtime)
        async with trio.open_nursery() as sessions:
            for number in range(50):
                sessions.start_soon(runtime.run, f"Session {number}.", others)
            result = await runtime.run("Tidy up.", careful)
        for call in result.tool_calls:
            print(call.name, call.input, "->", call.content)
        people.cancel_scope.cancel()


trio.run(main)

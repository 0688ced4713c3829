"""Answer the questions of many sessions, and approve a tool for ten minutes."""

import os

import trio

from agent_actors import (
    AgentOptions,
    ApprovalQueue,
    PermissionPolicy,
    Question,
    RunResult,
    Runtime,
    open_runtime,
    tool,
)


@tool
async def send_mail(item: int) -> str:
    """Send a mail."""
    return f"mail {item} is sent"


options = AgentOptions(
    model=os.environ.get("MODEL", "qwen3-32b"),
    base_url=os.environ.get("BASE_URL", "http://localhost:1234/v1"),
    tools=[send_mail],
    permissions=PermissionPolicy(ask=["send_mail"]),
)


def looks_right(question: Question) -> bool:
    """Decide in place of a person who sees the question on a screen."""
    return question.session_id != "mallory"


async def process(queue: ApprovalQueue) -> None:
    async for question in queue:
        if looks_right(question):
            queue.approve(question.id, whitelist="session")
        else:
            queue.deny(question.id, "ask your manager first")


async def serve(runtime: Runtime, customer: str) -> None:
    for prompt in ("Write to them.", "And again."):
        result: RunResult = await runtime.run(prompt, options, session_id=customer)
        print(customer, [call.content for call in result.tool_calls])


async def main() -> None:
    async with open_runtime() as runtime:
        with ApprovalQueue(runtime, whitelist_ttl=600) as queue:
            async with trio.open_nursery() as people:
                for _ in range(2):  # two consumers share the work
                    people.start_soon(process, queue)
                async with trio.open_nursery() as customers:
                    for customer in ("alice", "bob", "mallory"):
                        customers.start_soon(serve, runtime, customer)
                print([(entry.tool_name, entry.session_id) for entry in queue.whitelist()])
                queue.revoke_all()
                people.cancel_scope.cancel()


trio.run(main)

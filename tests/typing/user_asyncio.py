"""A user's asyncio code, for the type checkers only: no cast and no ignore."""

import asyncio
from typing import assert_type

from agent_actors import (
    AgentOptions,
    Messages,
    QueryMessage,
    Question,
    RunResult,
    SessionInfo,
    SessionPage,
    StreamBlock,
    ToolUseBlock,
)
from agent_actors.asyncio import Client, RunStream, Runtime, open_runtime, query, run
from agent_actors.events import Event, ResultEvent, RunEvent


class City:
    name: str


options = AgentOptions(model="m", base_url="http://localhost:1234/v1", auto_execute_tools=True)
typed = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=City)


async def start_runs(runtime: Runtime) -> None:
    result = await runtime.run("Hi.", typed, session_id="s")
    assert_type(result, RunResult[City])
    assert_type(result.output, City)
    events = runtime.stream("Hi.", typed)
    assert_type(events, RunStream[City])
    async with events:
        async for event in events:
            assert_type(event, RunEvent)
        async for batch in events.batches():
            assert_type(batch, tuple[RunEvent, ...])
    assert_type(events.result, RunResult[City])
    assert_type(await runtime.resume("s", {"q": "yes"}, typed), RunResult[City])
    assert_type(await run("Hi.", typed), RunResult[City])
    results = await asyncio.gather(*(runtime.run("Hi.", options) for _ in range(3)))
    assert [one.text for one in results]


async def use_sessions(runtime: Runtime) -> None:
    assert_type(await runtime.sessions.list(limit=3, order="updated"), SessionPage)
    assert_type(await runtime.sessions.info("s"), SessionInfo | None)
    assert_type(await runtime.sessions.history("s"), Messages | None)
    assert_type(await runtime.sessions.fork("s", 3, new_id="t"), str)
    assert_type(await runtime.sessions.export("s", after_seq=1), tuple[str, ...])
    assert_type(await runtime.list_sessions(where={"a": 1}), SessionPage)
    assert_type(await runtime.questions("s"), tuple[Question, ...])
    await runtime.questions.answer("q", "yes")
    assert_type(await runtime.is_busy("s"), bool)
    assert_type(await runtime.interrupt("s", "reason"), bool)
    assert_type(await runtime.steer("s", "More."), RunResult[object])


async def subscribe(runtime: Runtime) -> None:
    async def any_event(event: Event) -> None: ...

    async def results(event: ResultEvent) -> None: ...

    async with runtime.subscribe(any_event, session_id="s", replay=True):
        subscription = await runtime.subscribe(results, ResultEvent).open()
        await subscription.aclose()


async def talk() -> None:
    async with open_runtime(drain=1.0, tool_loop="asyncio") as runtime:
        async with Client(options, runtime=runtime) as client:
            await client.query("Hi.")
            async for block in client.receive_messages():
                assert_type(block, StreamBlock)
            assert_type(client.open_calls, tuple[ToolUseBlock, ...])
            assert len(client.history) > 0
        async with query("Hi.", options) as messages:
            async for message in messages:
                assert_type(message, QueryMessage)
    notebook = await open_runtime().open()
    assert_type(notebook, Runtime)
    await notebook.aclose(drain=0)

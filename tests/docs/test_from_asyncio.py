"""With the bridges from asyncio, a cancelled task also ends its run, and nothing hangs."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, cast

import pytest
import trio

from agent_actors import AgentOptions, RunResult, tool
from agent_actors.errors import ProviderError
from agent_actors.events import Event, ToolUse
from agent_actors.testing import ScriptedModel, call, hang, say
from agent_actors.testing.script import Turn, fail
from tests.docs.example_helpers import EXAMPLES, example

# Seconds; a program takes far less, so that only a hang fails.
PATIENCE = 60
# The example, its class, and the threads that it uses while it is open.
BRIDGES: list[tuple[str, str, list[str]]] = [
    ("from_asyncio", "Agents", ["agents"]),
    ("from_asyncio_guest", "GuestAgents", []),
]


class Agents(Protocol):
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def run(self, prompt: str, options: AgentOptions) -> Awaitable[RunResult]: ...
    def stream(
        self, prompt: str, options: AgentOptions
    ) -> AbstractAsyncContextManager["AsyncEvents"]: ...


class AsyncEvents(Protocol):
    def __aiter__(self) -> "AsyncEvents": ...
    async def __anext__(self) -> Event: ...


@pytest.fixture(params=BRIDGES, ids=["thread", "guest"])
def bridge_of(request: pytest.FixtureRequest) -> tuple[str, str, list[str]]:
    return cast("tuple[str, str, list[str]]", request.param)


@pytest.fixture
def agents(bridge_of: tuple[str, str, list[str]]) -> Iterator[Callable[[], Agents]]:
    name, agents_class, _ = bridge_of
    with example(name) as module:
        yield cast("Callable[[], Agents]", getattr(module, agents_class))


class Endless:
    """A tool that runs until it is cancelled, and records its start and its end."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.left = False

    def options(self, *turns: Turn) -> AgentOptions:
        @tool
        async def wait() -> None:
            """Wait."""
            self.running.set()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.01)
                self.left = True

        return scripted(*(turns or ([call("wait", {})],)), tools=(wait,))


def scripted(*turns: Turn, tools: tuple[object, ...] = ()) -> AgentOptions:
    return AgentOptions(model="scripted", provider=ScriptedModel(turns), tools=tools)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "agents"]


def test_parallel_runs_finish_and_thread_ends(
    agents: Callable[[], Agents], bridge_of: tuple[str, str, list[str]]
) -> None:
    async def main() -> None:
        options = scripted("one", "two")
        async with agents() as bridge:
            assert threads() == bridge_of[2]
            results = await asyncio.gather(bridge.run("a", options), bridge.run("b", options))
        assert sorted(result.text for result in results) == ["one", "two"]
        assert threads() == []

    asyncio.run(main())


def test_cancelled_task_waits_for_its_run(
    agents: Callable[[], Agents],
) -> None:
    async def main() -> None:
        endless = Endless()
        async with agents() as bridge:
            task = asyncio.ensure_future(bridge.run("Wait.", endless.options()))
            await asyncio.to_thread(endless.running.wait)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # an impatient caller cancels again; this has no further effect
            with pytest.raises(asyncio.CancelledError):
                await task
            assert endless.left

    asyncio.run(main())


def test_a_failed_run_raises_its_error(agents: Callable[[], Agents]) -> None:
    async def main() -> None:
        async with agents() as bridge:
            with pytest.raises(ProviderError, match="no such model"):
                await bridge.run("a", failing("no such model"))
            with pytest.raises(ProviderError, match="half way"):
                await read(bridge, failing("half way"))
        assert threads() == []

    async def read(bridge: Agents, options: AgentOptions) -> None:
        async with bridge.stream("a", options) as events:
            async for _ in events:
                pass

    def failing(why: str) -> AgentOptions:
        return scripted([say("x"), fail(ProviderError(why, endpoint="scripted"))])

    asyncio.run(main())


def test_slow_reader_gets_every_event(agents: Callable[[], Agents]) -> None:
    async def main() -> None:
        words = [f"{number} " for number in range(300)]
        async with agents() as bridge, bridge.stream("a", scripted([say(*words)])) as events:
            found = [event.type async for event in events]
        assert found.count("assistant.delta") >= 1
        assert found[-1] == "result"

    asyncio.run(main())


def test_leaving_a_stream_ends_its_run(agents: Callable[[], Agents]) -> None:
    async def main() -> None:
        endless = Endless()
        async with agents() as bridge:
            async with bridge.stream("Wait.", endless.options()) as events:
                async for event in events:
                    if isinstance(event, ToolUse):
                        await asyncio.to_thread(endless.running.wait)
                        break
            assert endless.left

    asyncio.run(main())


def test_close_ends_live_runs(agents: Callable[[], Agents]) -> None:
    async def main() -> None:
        endless = Endless()
        bridge = agents()
        async with bridge:
            task = asyncio.ensure_future(bridge.run("Wait.", endless.options()))
            await asyncio.to_thread(endless.running.wait)
        assert endless.left
        with pytest.raises(RuntimeError, match="closed"):
            await task
        with pytest.raises(RuntimeError):
            await bridge.run("a", scripted("b"))

    asyncio.run(main())


def test_asyncio_timeout_ends_hanging_model(agents: Callable[[], Agents]) -> None:
    async def main() -> None:
        async with agents() as bridge:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await bridge.run("a", scripted([hang()]))

    asyncio.run(main())


def test_tool_uses_the_event_loop(agents: Callable[[], Agents]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def work() -> str:
            await asyncio.sleep(0)
            return f"done in {threading.current_thread().name}"

        @tool
        async def hand_over() -> str:
            """Ask the loop."""
            asked = asyncio.run_coroutine_threadsafe(work(), loop)
            return await trio.to_thread.run_sync(asked.result)

        options = scripted([call("hand_over", {})], [say("ok")], tools=(hand_over,))
        async with agents() as bridge:
            result = await bridge.run("a", options)
        assert result.tool_calls[0].content == f"done in {threading.current_thread().name}"

    asyncio.run(main())


def test_ctrl_c_ends_run_before_program(bridge_of: tuple[str, str, list[str]]) -> None:
    name, agents_class, _ = bridge_of
    program = f"""
        import asyncio
        from agent_actors import AgentOptions
        from agent_actors.testing import ScriptedModel, do, hang
        from {name} import {agents_class} as Agents

        model = ScriptedModel([[do(lambda: print("runs", flush=True)), hang()]])

        async def main():
            async with Agents() as agents:
                try:
                    await agents.run("a", AgentOptions(model="scripted", provider=model))
                finally:
                    print(model.live, "alive", flush=True)

        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{os.environ['PYTHONPATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        try:
            printed, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()  # otherwise a hang of the program would hang the test
    assert printed == "0 alive\n", errors
    assert errors.rstrip().endswith("KeyboardInterrupt")

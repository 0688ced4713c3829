"""Cancellation across the bridge: joins, closed loops and Ctrl-C."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import pytest

from agent_actors import tool
from agent_actors.asyncio import Runtime, open_runtime
from agent_actors.asyncio import bridge as bridge_module
from agent_actors.events import UserMessage
from agent_actors.testing import call, hang, say
from tests.asyncio.helpers import agent, ignore_pending
from tests.asyncio.helpers import run as run_test


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_module, "WATCH", 0.01)


def test_repeated_cancellation_waits_for_the_join() -> None:
    steps: list[str] = []
    cleaning, finish = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Clean up until the test lets it."""
        try:
            await asyncio.sleep(60)
        finally:
            cleaning.set()
            await finish.wait()  # noqa: ASYNC102 - the test sets it
            steps.append("the tool has ended")
        return ""

    async def main() -> None:
        async with open_runtime() as runtime:
            options = agent([call("slow", {})], tools=(slow,))
            running = asyncio.create_task(runtime.run("Hi.", options, session_id="s"))
            await asyncio.sleep(0.02)
            running.cancel()
            await cleaning.wait()
            for _ in range(3):
                running.cancel()
                await asyncio.sleep(0.002)
            assert not running.done()
            finish.set()
            with pytest.raises(asyncio.CancelledError):
                await running
            steps.append("the run has ended")
            assert not await runtime.is_busy("s")
            history = await runtime.sessions.history("s")
            assert history is not None
            history.validate()
        assert steps == ["the tool has ended", "the run has ended"]

    run_test(main)


def test_timeout_inside_a_stream_ends_the_run() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            events = runtime.stream("Hi.", agent([say("One."), hang()]), session_id="s")

            async def read() -> None:
                async with asyncio.timeout(0.05), events:
                    async for _ in events:
                        pass

            with pytest.raises(TimeoutError):
                await read()
            assert not await runtime.is_busy("s")

    run_test(main)


def test_leaving_a_stream_early_ends_the_run() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            async with runtime.stream("Hi.", agent([hang()])) as events:
                async for event in events:
                    if isinstance(event, UserMessage):
                        break
            assert events.result.stop_reason == "interrupted"

    run_test(main)


def test_interrupted_stream_can_be_read_on() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            async with runtime.stream("Hi.", agent([say("One."), hang()])) as events:
                async for event in events:
                    if event.type == "assistant.delta":
                        with pytest.raises(RuntimeError, match="has not ended"):
                            _ = events.result
                        await events.interrupt()
            assert events.result.stop_reason == "interrupted"
            await events.interrupt()

    run_test(main)


async def until_idle(runtime: Runtime, session_id: str) -> None:
    while await runtime.is_busy(session_id):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.002)


async def runs(runtime: Runtime) -> None:
    await runtime.run("Hi.", agent([say("One."), hang()]), session_id="s")


async def streams(runtime: Runtime) -> None:
    async with runtime.stream("Hi.", agent([say("One."), hang()]), session_id="s") as events:
        async for _ in events:
            pass


@pytest.mark.parametrize("use", [runs, streams])
def test_closed_loop_cancels_its_runs(use: Callable[[Runtime], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_runtime() as runtime:

            def elsewhere() -> None:
                loop = asyncio.new_event_loop()
                task = loop.create_task(asyncio.wait_for(use(runtime), None))
                loop.run_until_complete(asyncio.sleep(0.02))
                loop.close()
                ignore_pending(task)

            await asyncio.to_thread(elsewhere)
            await until_idle(runtime, "s")
            assert (await runtime.statistics()).runs == 0

    run_test(main)


def test_closed_owner_loop_closes_the_runtime() -> None:
    loop = asyncio.new_event_loop()
    runtime = open_runtime()
    loop.run_until_complete(runtime.__aenter__())
    loop.close()
    thread = runtime.bridge._thread
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_ends_the_runtime_cleanly(times: int) -> None:
    async def press() -> None:
        for _ in range(times):
            await asyncio.sleep(0.01)
            signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        async with open_runtime() as runtime, asyncio.TaskGroup() as group:
            pressing = group.create_task(press())
            await runtime.run("Hi.", agent([hang()]))
            await pressing

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


def test_closing_is_not_shortened_by_cancellation() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            running = asyncio.create_task(runtime.run("Hi.", agent([hang()])))
            await asyncio.sleep(0.01)
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_later(0.02, task.cancel)
        raise AssertionError(running)

    with pytest.raises(asyncio.CancelledError):
        run_test(main)


def test_tool_ends_with_its_loop() -> None:
    """A tool whose loop is closed gives an error result, and its thread does not wait."""
    contents: list[str] = []

    async def main() -> None:
        async with open_runtime() as runtime:

            @tool
            async def waits() -> str:
                """Wait."""
                await asyncio.sleep(60)
                return ""

            def elsewhere() -> None:
                loop = asyncio.new_event_loop()
                options = agent([call("waits", {})], tools=(waits,))
                task = loop.create_task(runtime.run("Hi.", options, session_id="s"))
                loop.run_until_complete(asyncio.sleep(0.03))
                loop.close()
                ignore_pending(task)

            await asyncio.to_thread(elsewhere)
            await until_idle(runtime, "s")
            history = await runtime.sessions.history("s")
            assert history is not None
            contents.extend(str(m.content) for m in history if m.role == "tool")

    run_test(main)
    assert len(contents) == 1

"""The asyncio runtime: runs, streams, sessions, subscriptions, opening and closing."""

import asyncio
import os
import threading
from typing import get_type_hints

import attrs
import pytest
import uvloop

from agent_actors import AgentOptions
from agent_actors.asyncio import Runtime, open_runtime, run
from agent_actors.asyncio.stream import CREDITS
from agent_actors.errors import (
    ActorCrashed,
    ConfigError,
    ProviderError,
    RuntimeClosed,
    RuntimeFailure,
    SessionBusy,
)
from agent_actors.events import AssistantDelta, Event, ResultEvent
from agent_actors.runtime.config import RuntimeArguments, RuntimeOptions
from agent_actors.testing import fail, hang, say
from tests.asyncio.helpers import PATIENCE, agent, until
from tests.asyncio.helpers import run as run_test


def test_run_returns_result() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            assert (await runtime.run("Hi.", agent([say("Hello.")]))).text == "Hello."
            with pytest.raises(ConfigError, match="blank"):
                await runtime.run(" ", agent())
        assert not runtime.is_open
        with pytest.raises(RuntimeClosed):
            await runtime.run("Hi.", agent())

    run_test(main)


def test_runtime_works_on_uvloop() -> None:
    async def main() -> str:
        async with (
            asyncio.timeout(PATIENCE),
            open_runtime() as runtime,
            runtime.stream("Hi.", agent([say("Hello.")])) as events,
        ):
            return "".join([e.text async for e in events if isinstance(e, AssistantDelta)])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == "Hello."


def test_stream_yields_events_and_result() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            async with runtime.stream("Hi.", agent([say("Hel", "lo.")])) as events:
                first = await anext(events)
                assert first.type == "system.init"
                rest = [event async for batch in events.batches() for event in batch]
            assert isinstance(rest[-1], ResultEvent)
            assert events.result.text == "Hello."
            with pytest.raises(RuntimeError, match="only once"):
                await events.__aenter__()

    run_test(main)


def test_failed_run_raises_its_error_once() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            events = runtime.stream("Hi.", agent([say("He"), fail(ValueError("no luck"))]))
            seen: list[str] = []

            async def read() -> None:
                async with events:
                    async for event in events:
                        seen.append(event.type)  # noqa: PERF401 - the iteration fails

            with pytest.raises(ProviderError, match="no luck"):
                await read()
            assert seen[-1] == "error"
            with pytest.raises(ProviderError, match="no luck"):
                _ = events.result

    run_test(main)


def test_stream_start_failure_is_raised_on_entering() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            async with runtime.stream("Hi.", agent([hang()]), session_id="s"):
                with pytest.raises(SessionBusy):
                    async with runtime.stream("Hi.", agent(), session_id="s"):
                        pass
            with pytest.raises(ConfigError):
                async with runtime.stream("", agent()):
                    pass

    run_test(main)


def test_slow_reader_stops_its_run() -> None:
    """The trio thread sends at most the credits; the rest waits in the mailbox of the run."""

    async def main() -> None:
        pieces = [str(number) for number in range(CREDITS * 4)]
        options = agent([say(*pieces, every=1e-6)])
        async with open_runtime() as runtime, runtime.stream("Hi.", options) as events:
            await until(lambda: len(events._batches) == CREDITS)
            other = await runtime.run("Hi.", agent([say("Not blocked.")]))
            assert other.text == "Not blocked."
            assert len(events._batches) == CREDITS
            text = "".join([e.text async for e in events if isinstance(e, AssistantDelta)])
            assert text == "".join(pieces)

    run_test(main)


def test_sessions_and_questions_are_async() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            result = await runtime.run("Hi.", agent([say("Hello.")]), session_id="s")
            history = await runtime.sessions.history("s")
            assert history == result.messages
            assert (await runtime.sessions.list()).sessions[0].session_id == "s"
            assert await runtime.sessions.fork("s", new_id="t") == "t"
            assert await runtime.sessions.delete("t")
            assert await runtime.questions("s") == await runtime.questions.pending() == ()
            assert await runtime.history("s") == history
            assert (await runtime.statistics()).runs_started == 1

    run_test(main)


def test_subscriber_runs_in_the_event_loop() -> None:
    async def main() -> None:
        seen: list[tuple[str, bool]] = []
        loop = asyncio.get_running_loop()

        async def note(event: Event) -> None:
            await asyncio.sleep(0)
            seen.append((event.type, asyncio.get_running_loop() is loop))

        async with open_runtime() as runtime:
            async with runtime.subscribe(note, ResultEvent) as subscription:
                await runtime.run("Hi.", agent([say("Hello.")]))
                await until(lambda: bool(seen))
                assert (await subscription.statistics()).delivered == 1
            await runtime.run("Hi.", agent([say("Hello.")]))
            assert subscription.failure is None
        assert seen == [("result", True)]

    run_test(main)


def test_runtime_opens_without_a_block() -> None:
    async def main() -> None:
        runtime = await open_runtime().open()
        assert (await runtime.run("Hi.", agent([say("Hello.")]))).text == "Hello."
        await runtime.aclose()
        await runtime.aclose()
        assert not runtime.is_open
        with pytest.raises(RuntimeFailure, match="only once"):
            await runtime.open()

    run_test(main)


def test_module_run_uses_the_open_runtime() -> None:
    async def main() -> None:
        assert (await run("Hi.", agent([say("Alone.")]))).text == "Alone."
        async with open_runtime() as runtime:
            assert (await run("Hi.", agent([say("Shared.")]))).text == "Shared."
            assert (await runtime.statistics()).runs_started == 1

    run_test(main)


def test_two_loops_share_one_runtime() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:

            def elsewhere(options: AgentOptions) -> str:
                return asyncio.run(runtime.run("Hi.", options)).text

            texts = await asyncio.gather(
                *(asyncio.to_thread(elsewhere, agent([say(str(n))])) for n in range(3)),
            )
            assert texts == ["0", "1", "2"]

    run_test(main)


def test_leaving_drains_live_runs() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            running = asyncio.create_task(runtime.run("Hi.", agent([say("a", "b", every=0.02)])))
            await asyncio.sleep(0.005)
        assert (await running).text == "ab"

    run_test(main)


def test_failed_body_cancels_live_runs() -> None:
    async def main() -> None:
        running: list[asyncio.Task[object]] = []

        async def fail_body() -> None:
            async with open_runtime() as runtime:
                running.append(asyncio.create_task(runtime.run("Hi.", agent([hang()]))))
                await asyncio.sleep(0.01)
                raise ValueError("body")

        with pytest.raises(ValueError, match="body"):
            await fail_body()
        await asyncio.wait(running)
        assert running[0].exception() is not None

    run_test(main)


def test_crash_cancels_the_body_and_is_raised() -> None:
    async def main() -> None:
        async def hold_open() -> None:
            async with open_runtime() as runtime:
                crash(runtime)
                await asyncio.sleep(PATIENCE)

        with pytest.raises(ActorCrashed):
            await hold_open()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run_test(main)


def crash(runtime: Runtime) -> None:
    async def broken() -> None:
        raise LookupError("a bug")

    owner = runtime.trio_object._actors.gate.owner
    runtime.bridge.post(lambda: owner.start_background(broken))


def test_refusals_explain_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="tool_loop"):
            open_runtime(tool_loop="curio")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        with pytest.raises(ConfigError, match="drain"):
            open_runtime(drain=-1)
        with pytest.raises(RuntimeFailure, match="async with"):
            await open_runtime().run("Hi.", agent())
        async with open_runtime() as runtime:
            with pytest.raises(RuntimeFailure, match="no asyncio event loop is running"):
                await asyncio.to_thread(runtime.bridge.port)
            with monkeypatch.context() as forked:
                parent = os.getpid()
                forked.setattr(os, "getpid", lambda: parent + 1)
                assert not runtime.is_open
                with pytest.raises(RuntimeFailure, match="after the fork"):
                    await runtime.run("Hi.", agent())

    run_test(main)


def test_arguments_are_those_of_the_options() -> None:
    fields = {field.name for field in attrs.fields(RuntimeOptions)}
    assert set(get_type_hints(RuntimeArguments)) == fields


def test_thread_ends_with_the_program() -> None:
    """A program that never leaves the runtime still closes it."""

    async def main() -> Runtime:
        return await open_runtime().open()

    runtime = asyncio.run(main())
    thread = runtime.bridge._thread
    assert thread is not None
    runtime.bridge._at_exit()
    assert not thread.is_alive()
    assert thread not in threading.enumerate()

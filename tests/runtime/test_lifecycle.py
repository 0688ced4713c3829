"""Opening and closing a runtime: refused calls, draining, cancellation and misuse."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.domain.events import Event
from agent_actors.errors import RuntimeClosed, RuntimeFailure, RuntimeShutdown
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call, cancel_at_every_step, pause, say


def slow(seconds: float) -> AgentOptions:
    return AgentOptions(
        model="m", provider=ScriptedModel(lambda request: [pause(seconds), say("Done.")])
    )


async def look_away(event: Event) -> None:
    """Ignore the event."""


@pytest.mark.feature("ASDK-034", "ASDK-095")
async def test_close_is_idempotent_and_refuses_runs() -> None:
    async with open_runtime() as runtime:
        await runtime.aclose()
        await runtime.aclose()
        with pytest.raises(RuntimeClosed, match="accepts no new work"):
            await runtime.run("Go.", slow(0))
        with pytest.raises(RuntimeClosed):
            runtime.subscribe(look_away)


@pytest.mark.feature("ASDK-094")
async def test_closing_waits_for_runs_in_flight(autojump_clock: MockClock) -> None:
    texts: list[str] = []

    async def run() -> None:
        texts.append((await runtime.run("Go.", slow(20))).text)

    async with trio.open_nursery() as nursery:
        async with open_runtime() as runtime:
            nursery.start_soon(run)
            await wait_all_tasks_blocked()
        assert trio.current_time() == pytest.approx(20, abs=0.1)
        assert texts == ["Done."] or runtime.statistics().runs == 0
    assert texts == ["Done."]


async def test_late_runs_are_cancelled_and_informed(autojump_clock: MockClock) -> None:
    async def run() -> None:
        with pytest.raises(RuntimeShutdown):
            await runtime.run("Go.", slow(1000))

    async with trio.open_nursery() as nursery, open_runtime(drain=5) as runtime:
        nursery.start_soon(run)
        await wait_all_tasks_blocked()
    assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_runtime_is_entered_once() -> None:
    runtime = open_runtime()
    with pytest.raises(RuntimeFailure, match="not open"):
        await runtime.run("Go.", slow(0))
    async with runtime:
        pass
    with pytest.raises(RuntimeFailure, match="opened only once"):
        await runtime.__aenter__()


def test_another_trio_run_may_not_use_it() -> None:
    runtime = open_runtime()

    async def first() -> None:
        async with runtime:
            await trio.to_thread.run_sync(lambda: trio.run(second))

    async def second() -> None:
        with pytest.raises(RuntimeFailure, match=r"another trio\.run"):
            await runtime.run("Go.", slow(0))

    trio.run(first)


async def test_tool_closing_its_runtime_is_refused() -> None:
    @tool
    async def close() -> str:
        """Close the runtime."""
        await runtime.aclose()
        return "closed"

    model = ScriptedModel([call("close"), "Oh."])
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", AgentOptions(model="m", provider=model, tools=[close]))
    assert result.text == "Oh."
    assert "RuntimeError" in str(result.tool_calls[0].content)


async def test_body_error_passes_unwrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_runtime():
            raise ZeroDivisionError


def test_opening_and_closing_survive_any_cancel() -> None:
    async def open_and_close() -> None:
        async with open_runtime():
            await trio.sleep(1)

    assert cancel_at_every_step(open_and_close) > 5


class _Slow(MemoryStore):
    async def open(self) -> int:
        await trio.Event().wait()
        return 1


class _Broken(MemoryStore):
    async def open(self) -> int:
        raise OSError("no such disk")


async def test_slow_store_open_fails_in_time(autojump_clock: MockClock) -> None:
    with pytest.raises(RuntimeFailure, match="did not open within 10 s"):
        await open_runtime(store=_Slow()).__aenter__()
    with pytest.raises(OSError, match="no such disk"):
        await open_runtime(store=_Broken()).__aenter__()

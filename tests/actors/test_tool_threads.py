"""Sync handlers in threads: joined or abandoned, and limited in number.

The threads only wait for events.
"""

import threading
from contextvars import ContextVar
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agent_actors.actors.tool_executor import ToolExecutor
from agent_actors.domain.json import JsonValue
from agent_actors.kernel.request import RequestCancelled
from agent_actors.tools import Tool, ToolContext, tool
from tests.actors.helpers import Attempt, Clock
from tests.actors.tool_helpers import (
    Progress,
    call_of,
    nothing_is_held,
    results,
    run_of,
    run_one,
    submit,
)

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")

# Seconds; only a failing test waits this long.
LONG = 5.0


async def serving(nursery: trio.Nursery, **bounds: int) -> ToolExecutor:
    made = ToolExecutor(Clock(), **bounds)
    await nursery.start(made.owner.serve)
    return made


class Blocked:
    """A tool whose thread waits until the test releases it, even if its call is cancelled."""

    def __init__(self, name: str = "blocked", *, abandon: bool = False) -> None:
        self.inside = 0
        self.peak = 0
        self.entered = trio.Event()
        self.go_on = threading.Event()
        self.returned = threading.Event()
        self.tool = Tool(name, "", None, self._enter, on_cancel="abandon" if abandon else "join")

    def _came(self) -> None:
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        self.entered.set()

    def _enter(self, _: dict[str, JsonValue], context: ToolContext) -> str:
        trio.from_thread.run_sync(self._came)
        try:
            assert self.go_on.wait(LONG)
            context.report("left")
            return "left"
        finally:
            self.inside -= 1
            self.returned.set()


async def wait_until_free(executor: ToolExecutor) -> None:
    with trio.fail_after(LONG):
        while not nothing_is_held(executor):  # noqa: ASYNC110 - the end of a thread wakes no task
            await trio.sleep(0.001)


# Joined threads.


async def test_sync_handler_thread_sees_context_variables(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)

    @tool
    def who() -> list[str]:
        return [tenant.get(), str(threading.current_thread() is threading.main_thread())]

    tenant.set("acme")
    found = await run_one(executor, run_of(who), call_of(who))
    assert found.content == ["acme", "False"]
    assert nothing_is_held(executor)


async def test_joined_handler_ends_with_its_thread(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    entered, log = trio.Event(), list[str]()
    leave = threading.Event()

    @tool
    def polite(context: ToolContext) -> str:
        log.append(f"cancelled at first: {context.cancelled}")
        trio.from_thread.run_sync(entered.set)
        while not context.cancelled:
            leave.wait(0.001)
        assert leave.wait(LONG)
        log.append("returned")
        return "stopped"

    run = run_of(polite)
    asker = Attempt(nursery, partial(run_one, executor, run, call_of(polite)))
    await entered.wait()
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert asker.outcome == "waiting"
    assert log == ["cancelled at first: False"]
    leave.set()
    await asker.ended.wait()
    assert log[1:] == ["returned"]
    assert asker.value.content == "stopped", "the reached value is returned"
    assert nothing_is_held(executor)


async def test_handler_that_raises_cancelled_is_cancelled(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    entered = trio.Event()
    wait = threading.Event()

    @tool
    def checking() -> None:
        trio.from_thread.run_sync(entered.set)
        while True:
            trio.from_thread.check_cancelled()
            wait.wait(0.001)

    request = await executor.submit(run_of(checking), call_of(checking))
    await entered.wait()
    request.cancel("the run ended")
    await request.wait_done()
    with pytest.raises(RequestCancelled):
        request.result()
    assert nothing_is_held(executor)


async def test_threads_are_bounded_and_shared_fairly(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery, threads=2, tools_per_run=1)
    first, second, third = (Blocked(name) for name in ("first", "second", "third"))
    requests = [
        await executor.submit(run_of(item.tool, run_id=item.tool.name), call_of(item.tool))
        for item in (first, second, third)
    ]
    await first.entered.wait()
    await second.entered.wait()
    found = executor.statistics()
    assert (found.tools.used, found.threads.used, found.threads.waiting) == (3, 2, 1)
    assert not third.entered.is_set()
    first.go_on.set()
    await third.entered.wait()
    assert executor.statistics().threads.peak == 2
    second.go_on.set()
    third.go_on.set()
    assert [result.content for result in await results(requests)] == ["left"] * 3
    assert nothing_is_held(executor)


async def test_thread_progress_is_ordered_before_result(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    progress = Progress()

    @tool
    def count(context: ToolContext) -> str:
        for number in range(3):
            context.report(number)
        own = threading.Thread(target=context.report, args=("from a thread of its own",))
        own.start()
        own.join()
        return "counted"

    run = run_of(count, progress=progress)
    await run_one(executor, run, call_of(count))
    assert [report for _, _, report in progress.told] == [0, 1, 2, "from a thread of its own"]


async def test_nested_thread_sees_no_cancel(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    seen: list[bool] = []

    @tool
    def starts(context: ToolContext) -> None:
        own = threading.Thread(target=lambda: seen.append(context.cancelled))
        own.start()
        own.join()

    await run_one(executor, run_of(starts), call_of(starts))
    assert seen == [False]


async def test_handler_may_run_its_own_event_loop(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    tasks: list[object] = []

    class Here(Progress):
        def __call__(self, call_id: str, name: str, progress: JsonValue) -> None:
            tasks.append(trio.lowlevel.current_trio_token())

    @tool
    def nested(context: ToolContext) -> bool:
        async def inner() -> bool:
            context.report("from the inner run")
            seen = True
            with trio.CancelScope() as scope:
                scope.cancel()
                seen = context.cancelled
                await trio.lowlevel.checkpoint()
            return seen

        return trio.run(inner)

    found = await run_one(executor, run_of(nested, progress=Here()), call_of(nested))
    assert tasks == [trio.lowlevel.current_trio_token()]
    assert found.content == "false", "cancelling the inner trio run does not cancel the call"


# Abandoned threads.


async def test_abandoned_call_ends_while_thread_is_counted(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    blocked = Blocked(abandon=True)
    request = await executor.submit(run_of(blocked.tool), call_of(blocked.tool))
    await blocked.entered.wait()
    assert executor.statistics().threads.used == 0, "abandonable threads have their own limit"
    request.cancel("the run ended")
    await request.wait_done()
    assert not blocked.returned.is_set()
    with pytest.raises(RequestCancelled):
        request.result()
    found = executor.statistics()
    assert (found.tools.used, found.abandoned) == (0, 1)
    blocked.go_on.set()
    await wait_until_free(executor)
    with pytest.raises(RequestCancelled):  # its result is dropped
        request.result()


async def test_uncancelled_abandonable_call_returns_its_result(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    blocked = Blocked(abandon=True)
    blocked.go_on.set()
    found = await run_one(executor, run_of(blocked.tool), call_of(blocked.tool))
    assert found.content == "left"
    await wait_until_free(executor)


async def test_late_abandonable_call_is_an_error(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery)
    blocked = Blocked(abandon=True)
    run = run_of(blocked.tool, timeout=0.001)
    found = await run_one(executor, run, call_of(blocked.tool))
    assert found.is_error
    assert "did not finish within 0.001 s" in str(found.content)
    blocked.go_on.set()
    await wait_until_free(executor)


async def test_too_many_abandoned_threads_is_an_error(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery, abandoned_threads=2)
    blocked = [Blocked(abandon=True) for _ in range(3)]
    for item in blocked[:2]:
        request = await executor.submit(run_of(item.tool), call_of(item.tool))
        await item.entered.wait()
        request.cancel("the run ended")
        await request.wait_done()
    found = await run_one(executor, run_of(blocked[2].tool), call_of(blocked[2].tool))
    assert found.is_error
    assert found.content == "the tool was not run, since 2 abandoned tools are still running"
    for item in blocked:
        item.go_on.set()
    await wait_until_free(executor)
    found = await run_one(executor, run_of(blocked[2].tool), call_of(blocked[2].tool))
    assert found.content == "left"
    await wait_until_free(executor)


def test_abandoned_thread_may_outlive_trio() -> None:
    reported = threading.Event()
    go_on = threading.Event()

    async def main() -> None:
        entered = trio.Event()

        @tool(on_cancel="abandon")
        def late(context: ToolContext) -> None:
            trio.from_thread.run_sync(entered.set)
            assert go_on.wait(LONG)
            context.report("nobody is there")
            reported.set()

        async with trio.open_nursery() as nursery:
            executor = await serving(nursery)
            request = await executor.submit(run_of(late), call_of(late))
            await entered.wait()
            request.cancel("the run ended")
            await request.wait_done()
            executor.owner.close()

    trio.run(main)
    go_on.set()
    assert reported.wait(LONG)


async def test_call_cancelled_before_thread_runs_nothing(
    nursery: trio.Nursery,
) -> None:
    executor = await serving(nursery, threads=1)
    blocked = Blocked()
    begun: list[str] = []

    @tool
    def effect() -> None:
        begun.append("effect")

    run = run_of(blocked.tool, effect)
    first, second = await submit(executor, run, call_of(blocked.tool), call_of(effect, 1))
    await blocked.entered.wait()
    await wait_all_tasks_blocked()
    second.cancel("the run ended")
    await second.wait_done()
    blocked.go_on.set()
    await first.wait()
    assert begun == []
    assert nothing_is_held(executor)

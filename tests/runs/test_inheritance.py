"""Threads and tasks that inherit no context variables, with and without `in_current_run`."""

import functools
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import attrs
import pytest
import trio

from agent_actors import AgentOptions, Runtime, in_current_run, open_runtime, tool
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import call
from tests.runs.hooks.helpers import USE, agent, ran, results

Start = Callable[[Runtime, AgentOptions, bool], Awaitable[str]]
number: ContextVar[int] = ContextVar("number", default=0)


def _run_from(runtime: Runtime, options: AgentOptions, token: trio.lowlevel.TrioToken) -> str:
    return results(trio.from_thread.run(runtime.run, "go", options, trio_token=token))[0]


async def in_thread(runtime: Runtime, options: AgentOptions, keep: bool) -> str:
    contents: list[str] = []
    token = trio.lowlevel.current_trio_token()

    def work() -> None:
        contents.append(_run_from(runtime, options, token))

    thread = threading.Thread(target=in_current_run(work) if keep else work)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    return contents[0]


async def in_executor(runtime: Runtime, options: AgentOptions, keep: bool) -> str:
    work = in_current_run(_run_from) if keep else _run_from
    with ThreadPoolExecutor() as executor:
        future = executor.submit(work, runtime, options, trio.lowlevel.current_trio_token())
        return await trio.to_thread.run_sync(future.result)


async def in_system_task(runtime: Runtime, options: AgentOptions, keep: bool) -> str:
    contents: list[str] = []
    done = trio.Event()

    async def work(prompt: str) -> None:
        contents.extend(results(await runtime.run(prompt, options)))
        done.set()

    trio.lowlevel.spawn_system_task(in_current_run(work) if keep else work, "go")
    await done.wait()
    return contents[0]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("start", [in_thread, in_executor, in_system_task])
async def test_rules_apply_if_the_run_is_kept(start: Start, keep: bool) -> None:
    ran.clear()
    async with open_runtime() as runtime:

        @tool
        async def delegate() -> str:
            """Run another agent."""
            return await start(runtime, agent(*USE), keep)

        policy = PermissionPolicy(mode="bypass", deny=["echo(a)"])
        options = attrs.evolve(
            agent(call("delegate"), "Done."), tools=[delegate], permissions=policy
        )
        (contents,) = results(await runtime.run("Go.", options))
        assert ("not permitted" in contents) is keep
        assert ran == ([] if keep else ["a"])


async def test_kept_functions_may_be_called_often() -> None:
    entered = threading.Barrier(2, timeout=10)

    def look() -> int:
        entered.wait()  # two calls at once
        return number.get()

    before = number.set(7)
    kept = in_current_run(look)
    number.reset(before)
    with ThreadPoolExecutor() as executor:
        futures = [executor.submit(kept) for _ in range(2)]
        assert [await trio.to_thread.run_sync(one.result) for one in futures] == [7, 7]
    assert kept.__name__ == "look"


async def test_kept_async_function_leaves_no_values() -> None:
    class Worker:
        async def __call__(self, add: int) -> int:
            await trio.lowlevel.checkpoint()
            return number.get() + add

    before = number.set(7)
    kept = in_current_run(functools.partial(Worker(), 1))
    number.reset(before)
    assert (await kept(), number.get()) == (8, 0)

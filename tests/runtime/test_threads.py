"""A runtime that other threads use: calls that work from any thread, and hints for the others."""

import threading
from collections.abc import Callable
from functools import partial
from typing import cast

import attrs
import pytest
import trio

from agent_actors import ApprovalQueue, Runtime, open_runtime
from agent_actors.domain.run import RunResult
from agent_actors.errors import ConfigError, QuestionClosed, RuntimeClosed, RuntimeFailure
from agent_actors.permissions import PermissionPolicy
from tests.runs.helpers import check_quiet
from tests.runs.hooks.helpers import USE, agent, results


async def in_a_thread(work: Callable[[], object]) -> object:
    """Call a function in a thread unknown to trio; return its value or its exception."""
    outcome: list[object] = []

    def call() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # noqa: BLE001 - the outcome of the test
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    return outcome[0]


async def ask(runtime: Runtime, ended: list[RunResult]) -> None:
    options = attrs.evolve(agent(*USE), permissions=PermissionPolicy())
    ended.append(await runtime.run("Go.", options))


async def test_any_thread_may_answer_a_question() -> None:
    ended: list[RunResult] = []
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(ask, runtime, ended)
        await trio.testing.wait_all_tasks_blocked()
        found = await in_a_thread(runtime.questions)
        (question,) = runtime.questions()
        assert found == (question,)
        answer = partial(runtime.answer, question.id)
        assert isinstance(await in_a_thread(partial(answer, cast(str, 5))), ConfigError)
        assert await in_a_thread(partial(answer, "yes")) is None
        assert isinstance(await in_a_thread(partial(answer, "yes")), QuestionClosed)
        await trio.testing.wait_all_tasks_blocked()
        assert results(ended[0]) == ["said a"]
        check_quiet(runtime)


async def test_threads_of_trio_may_answer() -> None:
    ended: list[RunResult] = []
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(ask, runtime, ended)
        await trio.testing.wait_all_tasks_blocked()
        await trio.to_thread.run_sync(runtime.answer, runtime.questions()[0].id, "no")
    assert "not permitted" in results(ended[0])[0]


async def test_other_threads_learn_which_call_works() -> None:
    async with open_runtime() as runtime:
        queue = ApprovalQueue(runtime)
        with queue:
            for work in (partial(runtime.notify, "x"), partial(runtime.session_handle, None)):
                error = await in_a_thread(work)
                assert isinstance(error, RuntimeFailure)
                assert "trio.from_thread.run_sync" in str(error)
            error = await in_a_thread(partial(queue.approve, "q"))
            assert isinstance(error, RuntimeFailure)
            assert "trio.from_thread.run_sync(queue.approve" in str(error)

        async def elsewhere() -> None:
            runtime.answer("q", "yes")  # it would block this trio run

        error = await in_a_thread(partial(trio.run, elsewhere))
        assert isinstance(error, RuntimeFailure)
        assert "another trio.run()" in str(error)


def test_thread_learns_that_trio_has_ended() -> None:
    async def main() -> Runtime:
        async with open_runtime() as runtime:
            return runtime

    runtime = trio.run(main)
    with pytest.raises(RuntimeClosed):
        runtime.answer("q", "yes")


def test_unopened_runtime_takes_no_answer() -> None:
    with pytest.raises(RuntimeFailure, match="the runtime is not open"):
        open_runtime().answer("q", "yes")

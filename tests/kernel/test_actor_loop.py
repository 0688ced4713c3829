"""The loop of an actor: requests, crashes, cancellation, closing and statistics."""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.errors import ActorCrashed, RuntimeClosed
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.mailbox import Mailbox
from agent_actors.kernel.request import Request
from tests.actors.helpers import Attempt, Bug

T = TypeVar("T")

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


class BreakingMailbox(Mailbox[T]):
    """A mailbox that delivers some letters, and then raises, as only a bug could."""

    def __init__(self, capacity: int, *, letters: int) -> None:
        super().__init__(capacity)
        self.letters = letters
        self.go_on = trio.Event()

    def __aiter__(self) -> AsyncIterator[T]:
        return self._some()

    async def _some(self) -> AsyncIterator[T]:
        for _ in range(self.letters):
            yield await self.get()
        await self.go_on.wait()
        raise Bug("in the mailbox")


async def forever() -> str:
    await trio.sleep_forever()


async def value() -> str:
    return "value"


async def bug() -> None:
    raise Bug("in the background")


@pytest.fixture
async def owner(nursery: trio.Nursery) -> ActorLoop:
    made = ActorLoop("tester")
    await nursery.start(made.serve)
    return made


def breaking(*, letters: int = 1, capacity: int = 10) -> tuple[ActorLoop, BreakingMailbox[object]]:
    made = ActorLoop("tester")
    mailbox = BreakingMailbox[object](capacity, letters=letters)
    made._mailbox = mailbox  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue]
    return made, mailbox


# Typed requests; those that need not wait complete without a checkpoint.


async def test_nowait_request_needs_no_checkpoint(owner: ActorLoop) -> None:
    with assert_no_checkpoints():
        owner.statistics()
        await owner.submit(Request(value))
        owner.adopt(Request[str]())


async def test_ask_returns_the_typed_value(owner: ActorLoop) -> None:
    assert await owner.ask(value) == "value"


# The loop never runs user code, never blocks and never limits concurrency.


async def test_stuck_worker_blocks_no_request(owner: ActorLoop, nursery: trio.Nursery) -> None:
    stuck = [Attempt(nursery, lambda: owner.ask(forever)) for _ in range(50)]
    await wait_all_tasks_blocked()
    assert await owner.ask(value) == "value"
    assert all(attempt.outcome == "waiting" for attempt in stuck)
    assert owner.statistics().mailbox.depth == 0


async def test_each_request_has_its_own_task(nursery: trio.Nursery) -> None:
    owner = ActorLoop("tester")
    loops: list[trio.lowlevel.Task] = []

    async def serve() -> None:
        loops.append(trio.lowlevel.current_task())
        await owner.serve()

    async def who() -> trio.lowlevel.Task:
        return trio.lowlevel.current_task()

    nursery.start_soon(serve)
    tasks = {await owner.ask(who) for _ in range(3)}
    assert len(tasks) == 3
    assert not tasks & {*loops, trio.lowlevel.current_task()}


async def test_request_may_bypass_the_mailbox(owner: ActorLoop) -> None:
    token = tenant.set("an asker")

    async def see() -> str:
        return tenant.get()

    request = Request(see)
    tenant.reset(token)
    with assert_no_checkpoints():
        owner.start(request)
    assert not request.queued
    assert owner.statistics().live == 1
    assert await request.wait() == "an asker"
    found = owner.statistics()
    assert (found.live, found.mailbox.peak) == (0, 0)


async def test_inline_work_needs_no_task_or_checkpoint(owner: ActorLoop) -> None:
    with assert_no_checkpoints(), owner.inline():
        assert owner.statistics().live == 1
    assert owner.statistics().live == 0


async def test_worker_sees_context_of_its_caller(owner: ActorLoop, nursery: trio.Nursery) -> None:
    async def see_and_set() -> str:
        seen = tenant.get()
        tenant.set("changed by a worker")
        return seen

    async def ask_as(name: str) -> tuple[str, str]:
        tenant.set(name)
        return await owner.ask(see_and_set), tenant.get()

    first = Attempt(nursery, lambda: ask_as("first"))
    second = Attempt(nursery, lambda: ask_as("second"))
    await wait_all_tasks_blocked()
    assert first.value == ("first", "first")
    assert second.value == ("second", "second")
    assert await owner.ask(see_and_set) == "nobody"


async def test_background_task_uses_actor_context(owner: ActorLoop) -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(tenant.get())

    async def start() -> None:
        tenant.set("a run")
        owner.start_background(look)

    await owner.ask(start)
    await wait_all_tasks_blocked()
    assert seen == ["nobody"]


# A crash of the loop resolves all queued and pending requests.


@pytest.mark.parametrize("where", ["loop", "background"])
async def test_crash_resolves_all_requests_with_cause(nursery: trio.Nursery, where: str) -> None:
    owner, mailbox = breaking(letters=1, capacity=2)
    reported: list[Exception] = []
    owner.on_crash = reported.append
    pending = Attempt(nursery, lambda: owner.ask(forever))
    await wait_all_tasks_blocked()
    queued = [Attempt(nursery, lambda: owner.ask(value)) for _ in range(2)]
    served = Attempt(nursery, owner.serve)
    await wait_all_tasks_blocked()
    no_room = Attempt(nursery, lambda: owner.ask(value))
    await wait_all_tasks_blocked()
    assert owner.statistics().live == 4
    if where == "loop":
        mailbox.go_on.set()
    else:
        owner.start_background(bug)
    await served.ended.wait()
    await wait_all_tasks_blocked()
    for asker in (pending, *queued, no_room):
        assert isinstance(asker.error, ActorCrashed)
        assert asker.error.actor == "tester"
        assert isinstance(asker.error.__cause__, Bug)
    assert reported == [served.error], "the crash is reported once"
    assert owner.statistics().live == 0


async def test_asks_after_a_crash_raise_it_too(nursery: trio.Nursery) -> None:
    owner, mailbox = breaking()
    served = Attempt(nursery, owner.serve)
    await owner.ask(value)
    mailbox.go_on.set()
    await owner.ended.wait()
    await served.ended.wait()
    with pytest.raises(ActorCrashed):
        await owner.ask(value)
    with pytest.raises(ActorCrashed):
        owner.adopt(Request[str]())
    with pytest.raises(ActorCrashed):
        owner.start_background(forever)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def test_adopted_request_resolves_at_actor_end(nursery: trio.Nursery) -> None:
    owner, mailbox = breaking(letters=0)
    adopted = Request[str]()
    owner.adopt(adopted)
    served = Attempt(nursery, owner.serve)
    asker = Attempt(nursery, adopted.wait)
    await wait_all_tasks_blocked()
    mailbox.go_on.set()
    await served.ended.wait()
    await asker.ended.wait()
    assert isinstance(asker.error, ActorCrashed)


async def test_cancelled_actor_reports_closed(
    nursery: trio.Nursery,
) -> None:
    owner = ActorLoop("tester")
    served = Attempt(nursery, owner.serve)
    pending = Attempt(nursery, lambda: owner.ask(forever))
    await wait_all_tasks_blocked()
    served.scope.cancel()
    await wait_all_tasks_blocked()
    assert served.outcome == "cancelled"
    assert isinstance(pending.error, RuntimeClosed)
    with pytest.raises(RuntimeClosed, match="actor tester"):
        await owner.ask(value)


async def test_other_failure_is_reported_over_closed(
    nursery: trio.Nursery,
) -> None:
    owner = ActorLoop("tester")
    served = Attempt(nursery, owner.serve)
    pending = Attempt(nursery, lambda: owner.ask(forever))
    await wait_all_tasks_blocked()
    failure = ActorCrashed("another")
    owner.fail_with(failure)
    owner.fail_with(ActorCrashed("a third"))
    served.scope.cancel()
    await wait_all_tasks_blocked()
    assert pending.error is failure


# Cancellation through a mailbox.


async def test_cancelled_caller_joins_worker_through_mailbox(
    owner: ActorLoop, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    log: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
            log.append("worker ended")

    asker = Attempt(nursery, lambda: owner.ask(work))
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await asker.ended.wait()
    assert log == ["worker ended"]
    assert owner.statistics().live == 0


async def test_withdrawn_request_is_never_performed(
    nursery: trio.Nursery,
) -> None:
    owner = ActorLoop("tester")
    log: list[str] = []

    async def work() -> None:
        log.append("begun")

    asker = Attempt(nursery, lambda: owner.ask(work))
    await wait_all_tasks_blocked()
    assert owner.statistics().live == 1
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert owner.statistics().live == 0
    await nursery.start(owner.serve)
    await wait_all_tasks_blocked()
    assert log == []


async def test_cancelled_put_queues_nothing(
    nursery: trio.Nursery,
) -> None:
    owner = ActorLoop("tester", capacity=1)
    first = Attempt(nursery, lambda: owner.ask(value))
    await wait_all_tasks_blocked()
    second = Attempt(nursery, lambda: owner.ask(value))
    await wait_all_tasks_blocked()
    assert owner.statistics().live == 2
    second.scope.cancel()
    await wait_all_tasks_blocked()
    assert owner.statistics().live == 1
    await nursery.start(owner.serve)
    await first.ended.wait()
    assert first.value == "value"


# Exceptions of requests and of the loop.


async def test_request_exception_reaches_only_its_caller(owner: ActorLoop) -> None:
    async def fails() -> None:
        raise Bug("of the work")

    with pytest.raises(Bug, match="of the work"):
        await owner.ask(fails)
    assert await owner.ask(value) == "value"


async def test_loop_exception_crashes_the_actor(
    nursery: trio.Nursery,
) -> None:
    owner, mailbox = breaking(letters=0)
    served = Attempt(nursery, owner.serve)
    await wait_all_tasks_blocked()
    mailbox.go_on.set()
    await served.ended.wait()
    assert isinstance(served.error, ActorCrashed)
    assert isinstance(served.error.__cause__, Bug)
    assert "please report" in str(served.error)


# Closing.


async def test_close_drains_the_last_request(
    nursery: trio.Nursery,
) -> None:
    owner = ActorLoop("tester")
    served = Attempt(nursery, owner.serve)
    go_on = trio.Event()
    pending = Attempt(nursery, lambda: owner.ask(go_on.wait))
    await wait_all_tasks_blocked()
    adopted = Request[str]()
    owner.adopt(adopted)
    owner.start_background(bug_free)
    queued = await owner.submit(Request(value))
    owner.close()
    owner.close()
    with pytest.raises(RuntimeClosed):
        await owner.ask(value)
    await wait_all_tasks_blocked()
    assert queued.result() == "value", "queued requests are still performed"
    go_on.set()
    await wait_all_tasks_blocked()
    assert pending.outcome == "value"
    assert served.outcome == "waiting"
    adopted.resolve("by the actor itself")
    await served.ended.wait()
    assert served.outcome == "value"
    assert owner.ended.is_set()


async def bug_free() -> None:
    await trio.sleep_forever()


async def test_closing_notifies_callers_waiting_for_room(nursery: trio.Nursery) -> None:
    owner = ActorLoop("tester", capacity=1)
    first = Attempt(nursery, lambda: owner.ask(value))
    await wait_all_tasks_blocked()
    no_room = Attempt(nursery, lambda: owner.ask(value))
    await wait_all_tasks_blocked()
    owner.close()
    await wait_all_tasks_blocked()
    assert isinstance(no_room.error, RuntimeClosed)
    await nursery.start(owner.serve)
    await owner.ended.wait()
    assert first.value == "value"
    with pytest.raises(RuntimeClosed):
        owner.start_background(bug_free)


async def test_ending_actor_starts_no_task(
    nursery: trio.Nursery,
) -> None:
    owner = ActorLoop("tester")
    refused: list[Exception] = []

    class LastTask(trio.abc.Instrument):
        def task_exited(self, task: trio.lowlevel.Task) -> None:
            if task.parent_nursery is owner._workers:
                with pytest.raises(RuntimeClosed) as raised:
                    owner.start_background(bug_free)
                refused.append(raised.value)
                owner._closed = False  # as if `close` had not been called and the loop had crashed
                with pytest.raises(RuntimeClosed):
                    owner.start(Request(value))
                assert owner.statistics().live == 0
                assert not owner.ended.is_set()

    await nursery.start(owner.serve)
    owner.start_background(bug_free)
    await wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(LastTask())
    owner.close()
    await owner.ended.wait()
    assert len(refused) == 1


# Statistics.


async def test_statistics_show_requests_and_mailbox(nursery: trio.Nursery) -> None:
    owner = ActorLoop("tester", capacity=7)
    attempts = [Attempt(nursery, lambda: owner.ask(value)) for _ in range(3)]
    await wait_all_tasks_blocked()
    found = owner.statistics()
    assert (found.live, found.mailbox.depth, found.mailbox.capacity) == (3, 3, 7)
    await nursery.start(owner.serve)
    await wait_all_tasks_blocked()
    assert all(attempt.value == "value" for attempt in attempts)
    found = owner.statistics()
    assert (found.live, found.mailbox.depth, found.mailbox.peak) == (0, 0, 3)

"""The handoff between caller and worker, tested on a bare `Request`."""

import weakref
from contextvars import ContextVar
from functools import partial

import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.errors import RuntimeClosed
from agent_actors.kernel.request import Request, RequestCancelled
from tests.actors.helpers import Attempt, Bug

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def gone() -> Exception:
    return RuntimeClosed("the actor")


class Work:
    """Work that ends on request and logs its progress."""

    def __init__(self, value: str = "done", *, cleanup: float = 0.0) -> None:
        self.value = value
        self.cleanup = cleanup
        self.go_on = trio.Event()
        self.log: list[str] = []

    async def __call__(self) -> str:
        self.log.append("begun")
        try:
            await self.go_on.wait()
            self.log.append("reached")
            return self.value
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.cleanup)
            self.log.append("ended")


def taken(nursery: trio.Nursery, request: Request[str]) -> None:
    assert request.take()
    nursery.start_soon(request.perform, gone)


# A reply cannot fail.


async def test_reply_needs_no_checkpoint(
    nursery: trio.Nursery,
) -> None:
    request = Request[str]()
    waiters = [Attempt(nursery, request.wait) for _ in range(3)]
    settled = Attempt(nursery, request.wait_done)
    await wait_all_tasks_blocked()
    with assert_no_checkpoints():
        request.resolve("value")
    await wait_all_tasks_blocked()
    assert [waiter.value for waiter in waiters] == ["value"] * 3
    assert settled.outcome == "value"


async def test_reply_without_caller_is_ignored(nursery: trio.Nursery) -> None:
    request = Request[str]()
    asker = Attempt(nursery, request.wait_done)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert asker.outcome == "cancelled"
    request.resolve("value")
    assert request.result() == "value"


async def test_only_the_first_outcome_counts() -> None:
    request = Request[str]()
    request.resolve("first")
    request.resolve("second")
    request.fail(Bug())
    request.cancel("late")
    assert request.result() == "first"
    assert await request.wait() == "first"
    failed = Request[str]()
    failed.fail(Bug("first"))
    failed.resolve("second")
    with pytest.raises(Bug, match="first"):
        await failed.wait()


async def test_late_worker_value_is_ignored(
    nursery: trio.Nursery,
) -> None:
    work = Work("late")
    request = Request(work)
    asker = Attempt(nursery, request.wait)
    assert request.queued
    taken(nursery, request)
    await wait_all_tasks_blocked()
    request.fail(Bug("answered"))
    work.go_on.set()
    await wait_all_tasks_blocked()
    assert work.log == ["begun", "reached", "ended"]
    assert isinstance(asker.error, Bug)
    assert (request.queued, request.has_value) == (False, False)


async def test_finally_resolves_a_cancelled_worker() -> None:
    # No task waits here: a caller whose reply is lost could not even be cancelled.
    work = Work()
    request = Request(work)
    async with trio.open_nursery() as actor:
        taken(actor, request)
        await wait_all_tasks_blocked()
        actor.cancel_scope.cancel()
    assert request.done
    assert work.log == ["begun", "ended"]
    with pytest.raises(RuntimeClosed):
        request.result()


async def test_finally_resolves_on_base_exceptions() -> None:
    async def leave() -> str:
        raise SystemExit

    request = Request(leave)
    with pytest.RaisesGroup(SystemExit):
        async with trio.open_nursery() as actor:
            taken(actor, request)
    assert request.done
    with pytest.raises(RuntimeClosed):
        await request.wait()


# Cancellation: the caller waits for its worker.


async def test_cancelled_caller_withdraws_queued_request(
    nursery: trio.Nursery,
) -> None:
    request = Request(Work())
    asker = Attempt(nursery, request.wait)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert asker.outcome == "cancelled"
    assert request.done
    assert not request.has_value
    assert not request.take()


async def test_precancelled_caller_withdraws_immediately() -> None:
    request = Request(Work())
    with trio.CancelScope() as scope:
        scope.cancel()
        await request.wait()
    assert scope.cancelled_caught
    assert not request.take()


async def test_cancelled_caller_waits_for_worker_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    work = Work(cleanup=5.0)
    request = Request(work)
    asker = Attempt(nursery, request.wait)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await trio.sleep(4.9)
    assert asker.outcome == "waiting"
    await asker.ended.wait()
    assert trio.current_time() == pytest.approx(5.0)
    assert asker.outcome == "cancelled"
    assert work.log == ["begun", "ended"]


async def test_value_during_cancel_is_returned(
    nursery: trio.Nursery,
) -> None:
    work = Work("lease")
    request = Request(work)
    got: list[str] = []

    async def ask() -> None:
        got.append(await request.wait())
        await trio.lowlevel.checkpoint()
        got.append("went on")

    asker = Attempt(nursery, ask)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    work.go_on.set()
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert got == ["lease"]
    assert asker.outcome == "cancelled", "its Cancelled comes at the next checkpoint"


async def test_cancel_before_value_ends_work(nursery: trio.Nursery) -> None:
    work = Work()
    request = Request(work)
    asker = Attempt(nursery, request.wait)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    work.go_on.set()
    await wait_all_tasks_blocked()
    assert asker.outcome == "cancelled"
    assert work.log == ["begun", "ended"]


async def test_value_during_cleanup_is_returned(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def commit() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return "committed"

    request = Request(commit)
    got: list[str] = []

    async def ask() -> None:
        got.append(await request.wait())

    asker = Attempt(nursery, ask)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await asker.ended.wait()
    assert got == ["committed"]


async def test_work_cancelled_early_never_begins(
    nursery: trio.Nursery,
) -> None:
    work = Work()
    request = Request(work)
    asker = Attempt(nursery, request.wait)
    await wait_all_tasks_blocked()
    taken(nursery, request)
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert asker.outcome == "cancelled"
    assert work.log == []


async def test_wait_done_is_safely_cancellable(
    nursery: trio.Nursery,
) -> None:
    work = Work()
    request = Request(work)
    onlooker = Attempt(nursery, request.wait_done)
    asker = Attempt(nursery, request.wait)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    onlooker.scope.cancel()
    await wait_all_tasks_blocked()
    assert onlooker.outcome == "cancelled"
    assert asker.outcome == "waiting"
    work.go_on.set()
    await asker.ended.wait()
    assert asker.value == "done"
    with assert_no_checkpoints():
        await request.wait_done()


async def test_cancel_of_one_waiter_ends_work(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    request = Request(Work(cleanup=1.0))
    first, second = Attempt(nursery, request.wait), Attempt(nursery, request.wait)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    first.scope.cancel()
    await wait_all_tasks_blocked()
    assert (first.outcome, second.outcome) == ("waiting", "waiting")
    await second.ended.wait()
    assert first.outcome == "cancelled"
    assert isinstance(second.error, RequestCancelled)


async def test_cancel_of_one_waiter_withdraws_request(nursery: trio.Nursery) -> None:
    request = Request(Work())
    first, second = Attempt(nursery, request.wait), Attempt(nursery, request.wait)
    await wait_all_tasks_blocked()
    first.scope.cancel()
    await wait_all_tasks_blocked()
    assert first.outcome == "cancelled"
    assert isinstance(second.error, RequestCancelled)


async def test_request_cancel_reaches_the_worker(
    nursery: trio.Nursery,
) -> None:
    reasons: list[str] = []

    async def work() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            reasons.append(str(cancelled.reason))
            raise

    request = Request(work)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    request.cancel("shutdown")
    request.cancel("again")
    await request.wait_done()
    assert reasons == ["shutdown"]
    assert not request.has_value
    with pytest.raises(RequestCancelled):
        request.result()


async def test_self_ending_work_reports_its_reason(
    nursery: trio.Nursery,
) -> None:
    reasons: list[str] = []
    stop = trio.Event()

    def on_cancel(reason: str) -> None:
        reasons.append(reason)
        stop.set()

    async def work() -> str:
        await stop.wait()
        await trio.lowlevel.checkpoint()
        return "closed in good order"

    request = Request(work, on_cancel=on_cancel)
    assert request.take()
    request.cancel("interrupt")  # the request is taken, but its worker has not run yet
    nursery.start_soon(request.perform, gone)
    assert await request.wait() == "closed in good order"
    assert reasons == ["interrupt"]


# Work with a deadline.


async def test_missed_deadline_returns_its_value(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def work() -> str:
        request.expire_at(trio.current_time() + 5, lambda: "late")
        await trio.sleep_forever()
        raise AssertionError

    request = Request(work)
    taken(nursery, request)
    assert await request.wait() == "late"
    assert trio.current_time() == 5


async def test_timely_work_keeps_its_value(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def work(seconds: float) -> str:
        request.expire_at(trio.current_time() + 5, lambda: "late")
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        return "done"

    for seconds in (1, 9):
        request = Request(partial(work, seconds))
        taken(nursery, request)
        assert await request.wait() == "done"


async def test_cancel_outranks_the_deadline_in_cleanup(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def work() -> str:
        request.expire_at(trio.current_time() + 5, lambda: "late")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
        raise AssertionError

    request = Request(work)
    taken(nursery, request)
    await trio.sleep(6)
    request.cancel("the run ended")
    await request.wait_done()
    with pytest.raises(RequestCancelled):
        request.result()


async def test_late_failure_is_a_failure(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def work() -> str:
        request.expire_at(trio.current_time() + 5, lambda: "late")
        try:
            await trio.sleep_forever()
        finally:
            raise Bug("in finally")

    request = Request(work)
    taken(nursery, request)
    with pytest.raises(Bug):
        await request.wait()


async def test_done_request_holds_no_references() -> None:
    class Held:
        async def work(self) -> str:
            return "done"

    held = Held()
    gone_with_it = weakref.ref(held)
    request = Request(held.work)
    request.cancel("withdrawn")
    del held
    assert gone_with_it() is None


# Exceptions of the work.


async def test_work_exception_reaches_only_its_caller(
    nursery: trio.Nursery,
) -> None:
    async def work() -> str:
        raise Bug("mine")

    request = Request(work)
    asker = Attempt(nursery, request.wait)
    taken(nursery, request)
    await asker.ended.wait()
    assert isinstance(asker.error, Bug)


async def test_cancelled_work_may_still_raise(
    nursery: trio.Nursery,
) -> None:
    async def work() -> str:
        try:
            await trio.sleep_forever()
        finally:
            raise Bug("in finally")

    request = Request(work)
    asker = Attempt(nursery, request.wait)
    taken(nursery, request)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await asker.ended.wait()
    assert isinstance(asker.error, Bug)


# Other features of a request.


async def test_callback_runs_once_at_outcome() -> None:
    calls: list[str] = []
    request = Request[str]()
    request.on_done(lambda: calls.append("before"))
    assert calls == []
    request.resolve("value")
    assert calls == ["before"]
    request.on_done(lambda: calls.append("after"))
    assert calls == ["before", "after"]
    assert request.has_value


async def test_request_keeps_its_context(nursery: trio.Nursery) -> None:
    async def work() -> str:
        return tenant.get()

    token = tenant.set("asker")
    request = Request(work)
    tenant.reset(token)
    assert request.context[tenant] == "asker"
    assert request.take()
    request.context.run(nursery.start_soon, request.perform, gone)
    assert await request.wait() == "asker"


async def test_answered_request_never_begins(
    nursery: trio.Nursery,
) -> None:
    work = Work()
    request = Request(work)
    taken(nursery, request)
    request.fail(Bug("answered"))
    await wait_all_tasks_blocked()
    assert work.log == []
    with pytest.raises(Bug):
        request.result()

"""The meeting of asker and worker: clauses 3, 4 and 5 of the contract, on a bare `Request`."""

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
    """Work that ends when told, and says how it ended."""

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


# Clause 3: a reply cannot fail.


async def test_a_reply_is_resolved_without_a_checkpoint_and_wakes_every_waiter(
    nursery: trio.Nursery,
) -> None:
    request = Request[str]()
    waiters = [Attempt(nursery, request.wait) for _ in range(3)]
    settled = Attempt(nursery, request.settled)
    await wait_all_tasks_blocked()
    with assert_no_checkpoints():
        request.resolve("value")
    await wait_all_tasks_blocked()
    assert [waiter.value for waiter in waiters] == ["value"] * 3
    assert settled.outcome == "value"


async def test_a_reply_to_an_asker_that_has_gone_is_ignored(nursery: trio.Nursery) -> None:
    request = Request[str]()
    asker = Attempt(nursery, request.settled)
    await wait_all_tasks_blocked()
    asker.scope.cancel()
    await wait_all_tasks_blocked()
    assert asker.outcome == "cancelled"
    request.resolve("value")
    assert request.result() == "value"


async def test_only_the_first_outcome_of_a_request_counts() -> None:
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


async def test_what_a_worker_reaches_after_the_actor_has_answered_for_it_does_not_count(
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


async def test_the_workers_finally_resolves_when_the_worker_is_torn_down() -> None:
    # Nobody waits here: an asker whose reply is lost could not even be cancelled.
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


async def test_the_workers_finally_resolves_when_the_work_is_no_exception_but_worse() -> None:
    async def leave() -> str:
        raise SystemExit

    request = Request(leave)
    with pytest.RaisesGroup(SystemExit):
        async with trio.open_nursery() as actor:
            taken(actor, request)
    assert request.done
    with pytest.raises(RuntimeClosed):
        await request.wait()


# Clause 4: structured across the mailbox.


async def test_a_cancelled_asker_withdraws_a_request_that_nobody_took(
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


async def test_an_asker_whose_scope_is_cancelled_before_it_waits_withdraws_at_once() -> None:
    request = Request(Work())
    with trio.CancelScope() as scope:
        scope.cancel()
        await request.wait()
    assert scope.cancelled_caught
    assert not request.take()


async def test_a_cancelled_asker_goes_on_only_when_the_workers_finally_has_ended(
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


async def test_a_value_reached_in_the_tick_of_the_cancel_is_returned(
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


async def test_a_cancel_in_the_tick_before_the_value_ends_the_work(nursery: trio.Nursery) -> None:
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


async def test_a_value_reached_while_the_worker_cleans_up_after_the_cancel_is_returned(
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


async def test_work_that_was_cancelled_before_its_worker_ran_does_not_begin(
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


async def test_waiting_for_settled_is_safe_to_cancel_and_the_work_goes_on(
    nursery: trio.Nursery,
) -> None:
    work = Work()
    request = Request(work)
    onlooker = Attempt(nursery, request.settled)
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
        await request.settled()


async def test_one_waiters_cancel_ends_the_work_for_all_of_them(
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


async def test_one_waiters_cancel_withdraws_for_all_of_them(nursery: trio.Nursery) -> None:
    request = Request(Work())
    first, second = Attempt(nursery, request.wait), Attempt(nursery, request.wait)
    await wait_all_tasks_blocked()
    first.scope.cancel()
    await wait_all_tasks_blocked()
    assert first.outcome == "cancelled"
    assert isinstance(second.error, RequestCancelled)


async def test_a_cancel_from_the_side_of_the_request_is_told_to_its_worker(
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
    await request.settled()
    assert reasons == ["shutdown"]
    assert not request.has_value
    with pytest.raises(RequestCancelled):
        request.result()


async def test_work_that_ends_itself_is_told_the_reason_instead_of_being_cancelled(
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
    request.cancel("interrupt")  # taken, and its worker has not yet run
    nursery.start_soon(request.perform, gone)
    assert await request.wait() == "closed in good order"
    assert reasons == ["interrupt"]


# Work that has a deadline.


async def test_work_that_misses_its_deadline_has_the_value_that_was_made_for_that(
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


async def test_work_that_ends_in_time_or_all_the_same_keeps_its_own_value(
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


async def test_a_cancel_while_late_work_cleans_up_counts_and_not_the_deadline(
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
    await request.settled()
    with pytest.raises(RequestCancelled):
        request.result()


async def test_late_work_that_fails_on_its_way_out_has_failed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
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


async def test_a_request_that_is_done_holds_on_to_nothing_of_its_work() -> None:
    class Held:
        async def work(self) -> str:
            return "done"

    held = Held()
    gone_with_it = weakref.ref(held)
    request = Request(held.work)
    request.cancel("withdrawn")
    del held
    assert gone_with_it() is None


# Clause 5: a request's exception goes to its asker.


async def test_what_the_work_raises_goes_to_its_asker_and_to_nobody_else(
    nursery: trio.Nursery,
) -> None:
    async def work() -> str:
        raise Bug("mine")

    request = Request(work)
    asker = Attempt(nursery, request.wait)
    taken(nursery, request)
    await asker.ended.wait()
    assert isinstance(asker.error, Bug)


async def test_what_cancelled_work_raises_on_its_way_out_goes_to_its_asker(
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


# The rest of a request.


async def test_a_callback_is_called_at_the_outcome_or_at_once_when_there_is_one() -> None:
    calls: list[str] = []
    request = Request[str]()
    request.on_done(lambda: calls.append("before"))
    assert calls == []
    request.resolve("value")
    assert calls == ["before"]
    request.on_done(lambda: calls.append("after"))
    assert calls == ["before", "after"]
    assert request.has_value


async def test_a_request_keeps_the_context_in_which_it_was_made(nursery: trio.Nursery) -> None:
    async def work() -> str:
        return tenant.get()

    token = tenant.set("asker")
    request = Request(work)
    tenant.reset(token)
    assert request.context[tenant] == "asker"
    assert request.take()
    request.context.run(nursery.start_soon, request.perform, gone)
    assert await request.wait() == "asker"


async def test_work_whose_actor_has_answered_before_its_worker_ran_does_not_begin(
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

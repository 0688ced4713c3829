"""Any schedule of requests, cancellations and releases, in any order of tasks."""

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from agent_actors.actors.session_gate import Lease, OnBusy, SessionGate
from agent_actors.errors import RuntimeClosed, SessionBusy
from agent_actors.kernel.actor_loop import ActorLoop
from tests.actors.helpers import run_in_order

T = TypeVar("T")

# Few distinct times, so that requests, grants and cancellations often meet in one tick.
STARTS = st.sampled_from([0.0, 1.0, 2.0])
PATIENCE = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf])
SEEDS = st.integers(0, 1_000_000)


@attrs.frozen
class Run:
    """A run that wants a session, gives up at some time, and holds the session for a while."""

    start: float
    patience: float
    hold: float
    session_id: str
    on_busy: OnBusy


RUNS = st.lists(
    st.builds(
        Run,
        start=STARTS,
        patience=PATIENCE,
        hold=st.sampled_from([0.0, 1.0, 2.0]),
        session_id=st.sampled_from(["a", "b"]),
        on_busy=st.sampled_from(["reject", "queue"]),
    ),
    max_size=12,
)


@given(runs=RUNS, seed=SEEDS)
def test_gate_grants_each_lease_once(runs: list[Run], seed: int) -> None:
    gate = SessionGate(queue_capacity=4)
    holders: dict[str, str] = {}
    ends: dict[str, str] = {}
    fences: list[int] = []

    async def hold(lease: Lease, run: Run) -> None:
        with lease:
            assert run.session_id not in holders, "two runs hold the session"
            holders[run.session_id] = lease.run_id
            fences.append(lease.fence)
            try:
                assert gate.holder(run.session_id) == lease.run_id
                await trio.sleep(run.hold)
            finally:
                del holders[run.session_id]

    async def take_part(run: Run, run_id: str) -> None:
        await trio.sleep(run.start)
        try:
            with trio.move_on_after(run.patience) as scope:
                lease = await gate.acquire(run.session_id, run_id, on_busy=run.on_busy)
                await hold(lease, run)
        except SessionBusy:
            ends[run_id] = "busy"
        else:
            ends[run_id] = "cancelled" if scope.cancelled_caught else "done"

    async def main() -> None:
        async with trio.open_nursery() as actor:
            await actor.start(gate.owner.serve)
            with trio.fail_after(1_000):
                async with trio.open_nursery() as nursery:
                    for number, run in enumerate(runs):
                        nursery.start_soon(take_part, run, f"run-{number}")
            gate.owner.close()
        for session_id in "ab":
            gate.acquire_nowait(session_id, "last").release()

    run_in_order(main, seed)
    assert len(ends) == len(runs)
    for number, run in enumerate(runs):
        if run.patience == math.inf:
            assert ends[f"run-{number}"] in {"done", "busy"}
    assert len(set(fences)) == len(fences)
    found = gate.statistics()
    assert (found.held, found.waiting) == (0, 0)
    assert found.rejected == list(ends.values()).count("busy")
    assert gate.owner.statistics().live == 0


@attrs.frozen
class Ask:
    """A request whose caller gives up at some time; the work and its cleanup take time."""

    start: float
    patience: float
    work: float
    cleanup: float
    fails: bool
    # True: the caller performs the work in its own task.
    inline: bool

    async def of(self, owner: ActorLoop, work: Callable[[], Awaitable[T]]) -> T:
        if not self.inline:
            return await owner.ask(work)
        with owner.inline():
            await trio.lowlevel.checkpoint_if_cancelled()
            return await work()
        raise AssertionError("leaving a block that the actor cancelled raises")


ASKS = st.lists(
    st.builds(
        Ask,
        start=STARTS,
        patience=PATIENCE,
        work=st.sampled_from([0.0, 1.0, 2.0]),
        cleanup=st.sampled_from([0.0, 1.0]),
        fails=st.booleans(),
        inline=st.booleans(),
    ),
    max_size=12,
)


class Failed(Exception):
    """The error of work that fails."""


@given(asks=ASKS, seed=SEEDS, closing=st.sampled_from([0.0, 1.0, 2.0, 50.0]))
def test_caller_continues_after_its_worker_ended(
    asks: list[Ask], seed: int, closing: float
) -> None:
    owner = ActorLoop("tester", capacity=2)
    alive: set[int] = set()
    reached: set[int] = set()
    got: set[int] = set()
    ended: list[int] = []

    async def work(number: int, ask: Ask) -> int:
        alive.add(number)
        try:
            await trio.sleep(ask.work)
            if ask.fails:
                raise Failed(number)
            reached.add(number)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(ask.cleanup)
            alive.discard(number)
        return number

    async def take_part(number: int, ask: Ask) -> None:
        await trio.sleep(ask.start)
        try:
            with trio.move_on_after(ask.patience):
                got.add(await ask.of(owner, lambda: work(number, ask)))
        except Failed as failed:
            assert failed.args == (number,)  # noqa: PT017 - one of several ends
        except RuntimeClosed:
            assert trio.current_time() >= closing
        assert number not in alive, "the worker outlived its caller"
        ended.append(number)

    async def close() -> None:
        await trio.sleep(closing)
        owner.close()

    async def main() -> None:
        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(close)
                await nursery.start(owner.serve)
                for number, ask in enumerate(asks):
                    nursery.start_soon(take_part, number, ask)

    run_in_order(main, seed)
    assert sorted(ended) == list(range(len(asks)))
    assert got == reached, "exactly the reached values are returned"
    assert not alive
    found = owner.statistics()
    assert (found.live, found.mailbox.depth) == (0, 0)
    assert found.mailbox.peak <= 2


@given(asks=ASKS, seed=SEEDS, crash=st.sampled_from([0.0, 1.0, 2.0, 3.0]))
def test_crash_releases_every_caller(asks: list[Ask], seed: int, crash: float) -> None:
    owner = ActorLoop("tester", capacity=2)
    ended: list[int] = []
    failures: list[Exception] = []

    async def bug() -> None:
        await trio.sleep(crash)
        raise Failed("a bug of ours")

    async def work(ask: Ask) -> None:
        try:
            await trio.sleep(ask.work)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(ask.cleanup)

    async def take_part(number: int, ask: Ask) -> None:
        await trio.sleep(ask.start)
        try:
            with trio.move_on_after(ask.patience):
                await ask.of(owner, lambda: work(ask))
        except Exception as error:  # noqa: BLE001 - compared with the crash below
            failures.append(error)
        ended.append(number)

    async def serve() -> None:
        try:
            await owner.serve()
        except Exception as error:  # noqa: BLE001 - as above
            crashes.append(error)

    crashes: list[Exception] = []

    async def main() -> None:
        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve)
                await wait_all_tasks_blocked()
                owner.start_background(bug)
                for number, ask in enumerate(asks):
                    nursery.start_soon(take_part, number, ask)

    run_in_order(main, seed)
    assert sorted(ended) == list(range(len(asks)))
    (crash_error,) = crashes
    assert all(failure is crash_error for failure in failures), (
        "all callers get the same crash error"
    )
    assert isinstance(crash_error.__cause__, Failed)

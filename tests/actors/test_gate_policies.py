"""The queue of a busy session: its order, and the runs that are asked to stop."""

from functools import partial

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from agent_actors.actors.session_gate import MAX_OVERTAKES, Lease, OnBusy, SessionGate
from agent_actors.domain.run import CancelReason
from agent_actors.errors import SessionBusy
from tests.actors.helpers import Attempt


@attrs.define(eq=False)
class AdmissionQueue:
    """Runs that want session `s`, their positions, and the stops that they caused."""

    gate: SessionGate
    nursery: trio.Nursery
    stopped: list[str] = attrs.field(factory=list[str])
    places: dict[str, list[int]] = attrs.field(factory=dict[str, list[int]])
    attempts: dict[str, Attempt[Lease]] = attrs.field(factory=dict[str, Attempt[Lease]])

    async def join(self, run_id: str, on_busy: OnBusy) -> Attempt[Lease]:
        self.places[run_id] = []
        ask = partial(
            self.gate.acquire,
            "s",
            run_id,
            on_busy=on_busy,
            stop=partial(self._stop, run_id),
            moved=lambda place, _: self.places[run_id].append(place),
        )
        self.attempts[run_id] = attempt = Attempt(self.nursery, ask)
        await wait_all_tasks_blocked()
        return attempt

    def _stop(self, run_id: str, reason: CancelReason, _: str) -> None:
        self.stopped.append(f"{run_id}: {reason}")

    async def serve_all(self) -> list[str]:
        """Let each holder release the session at once, and return the holders in order."""
        order: list[str] = []
        while (holder := self.gate.holder("s")) is not None:
            order.append(holder)
            await wait_all_tasks_blocked()
            self.attempts[holder].value.release()
            await wait_all_tasks_blocked()
        return order


@pytest.fixture
async def line(nursery: trio.Nursery) -> AdmissionQueue:
    gate = SessionGate()
    await nursery.start(gate.owner.serve)
    return AdmissionQueue(gate, nursery)


async def test_interrupting_runs_precede_queued_runs(line: AdmissionQueue) -> None:
    await line.join("holder", "queue")
    await line.join("q1", "queue")
    await line.join("i1", "interrupt")
    await line.join("s1", "steer")
    await line.join("r1", "rollback")
    await line.join("q2", "queue")
    assert line.stopped == ["holder: interrupt", "holder: rollback"]
    assert line.places["q1"] == [1, 2, 3]
    assert line.places["r1"] == [2]
    assert await line.serve_all() == ["holder", "i1", "r1", "q1", "s1", "q2"]
    # i1 got the session while r1, which stops the holder, was behind it. No such run was behind r1.
    assert line.stopped == ["holder: interrupt", "holder: rollback", "i1: rollback"]
    assert line.places["q2"] == [5, 4, 3, 2, 1]
    assert line.gate.statistics().stopped == 3


async def test_interrupting_runs_starve_no_queued_run(line: AdmissionQueue) -> None:
    await line.join("i0", "interrupt")
    await line.join("early", "interrupt")  # does not overtake, because it arrived first
    await line.join("q1", "queue")
    await line.join("s1", "steer")
    order: list[str] = []
    for number in range(1, 21):  # each interrupts as soon as the previous one has the session
        await line.join(f"i{number}", "interrupt")
        order.append(line.gate.holder("s") or "")
        line.attempts[order[-1]].value.release()
        await wait_all_tasks_blocked()
    first, second = order.index("q1"), order.index("s1")
    assert order[:first] == ["i0", "early", *(f"i{n}" for n in range(1, MAX_OVERTAKES + 1))]
    assert second - first == MAX_OVERTAKES + 1
    assert line.places["q1"][-1] == 1
    # The run that was queued behind q1 did not stop it; the run that arrived later did.
    assert [entry for entry in line.stopped if entry.startswith("q1")] == ["q1: interrupt"]


async def test_leaving_waiter_resets_count_of_overtakes(line: AdmissionQueue) -> None:
    await line.join("i0", "interrupt")
    await line.join("q1", "queue")
    for number in range(1, MAX_OVERTAKES + 1):
        await line.join(f"i{number}", "interrupt")
        line.attempts[f"i{number - 1}"].value.release()
        await wait_all_tasks_blocked()
    line.attempts["q1"].scope.cancel()
    await line.join("q2", "queue")
    await line.join("last", "interrupt")
    assert (await line.serve_all())[1:] == ["last", "q2"]


async def test_leaving_waiter_moves_followers_up(line: AdmissionQueue) -> None:
    for run_id in ("holder", "a", "b", "c"):
        await line.join(run_id, "queue")
    line.attempts["b"].scope.cancel()
    await wait_all_tasks_blocked()
    assert (line.places["a"], line.places["c"]) == ([1], [3, 2])
    assert await line.serve_all() == ["holder", "a", "c"]


async def test_leaving_interrupter_stops_no_other_run(line: AdmissionQueue) -> None:
    await line.join("holder", "queue")
    await line.join("a", "interrupt")
    await line.join("b", "interrupt")
    line.attempts["b"].scope.cancel()
    await wait_all_tasks_blocked()
    assert await line.serve_all() == ["holder", "a"]
    assert line.stopped == ["holder: interrupt"] * 2


async def test_free_session_is_acquired_under_any_policy(
    line: AdmissionQueue,
) -> None:
    policies: tuple[OnBusy, ...] = ("reject", "queue", "interrupt", "rollback", "steer")
    for policy in policies:
        with assert_no_checkpoints(), await line.gate.acquire("s", "run", on_busy=policy):
            assert line.gate.holder("s") == "run"
    assert line.gate.statistics() == SessionGate().statistics()


async def test_full_queue_stops_no_run(nursery: trio.Nursery) -> None:
    gate = SessionGate(queue_capacity=1)
    await nursery.start(gate.owner.serve)
    line = AdmissionQueue(gate, nursery)
    await line.join("holder", "queue")
    await line.join("a", "queue")
    refused = await line.join("b", "interrupt")
    assert isinstance(refused.error, SessionBusy)
    assert line.stopped == []
    assert await line.serve_all() == ["holder", "a"]


async def test_ending_holder_is_awaited(line: AdmissionQueue) -> None:
    lease = line.gate.acquire_nowait("s", "brief")
    stopper = await line.join("a", "rollback")
    lease.release()
    await stopper.ended.wait()
    assert await line.serve_all() == ["a"]


async def test_stop_names_the_stopped_run(line: AdmissionQueue) -> None:
    assert line.gate.stop("s", CancelReason.INTERRUPT, "why") is None
    await line.join("holder", "queue")
    with assert_no_checkpoints():
        assert line.gate.stop("s", CancelReason.INTERRUPT, "why") == "holder"
    with pytest.raises(SessionBusy, match="descendant"):
        line.gate.stop("s", CancelReason.INTERRUPT, "why", ancestors=["s"])
    assert line.stopped == ["holder: interrupt"]
    assert await line.serve_all() == ["holder"]


POLICIES = st.sampled_from(["queue", "interrupt", "rollback", "steer"])


@given(st.lists(st.tuples(POLICIES, st.sampled_from(["stay", "leave"])), max_size=8), st.data())
def test_queue_is_fifo_except_interrupts(
    wanted: list[tuple[OnBusy, str]], data: st.DataObject
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            gate = SessionGate()
            await nursery.start(gate.owner.serve)
            line = AdmissionQueue(gate, nursery)
            await line.join("holder", "queue")
            for number, (policy, _) in enumerate(wanted):
                await line.join(str(number), policy)
            for number, (_, does) in enumerate(wanted):
                if does == "leave":
                    line.attempts[str(number)].scope.cancel()
                    if data.draw(st.booleans()):
                        await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()
            left = [(str(n), p) for n, (p, does) in enumerate(wanted) if does == "stay"]
            stoppers = [run_id for run_id, p in left if p in ("interrupt", "rollback")]
            others = [run_id for run_id, p in left if p not in ("interrupt", "rollback")]
            for place, run_id in enumerate([*stoppers, *others], 1):
                assert line.places[run_id][-1] == place
            fence = line.attempts["holder"].value.fence
            assert await line.serve_all() == ["holder", *stoppers, *others]
            assert gate.acquire_nowait("s", "next").fence == fence + len(left) + 1
            # Exactly the runs with a stopping run behind them were asked to stop.
            stopped = {entry.split(":")[0] for entry in line.stopped}
            asked = any(p in ("interrupt", "rollback") for p, _ in wanted)
            assert stopped == {*(["holder"] if asked else []), *stoppers[:-1]}
            assert gate.statistics().waiting == 0
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))

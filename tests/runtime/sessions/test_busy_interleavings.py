"""One session that many callers want at once, under every policy.

The same rules hold for every plan. The records are valid, and the state in memory is their fold.
No two runs overlap. Waiting runs get the session in the order of their arrival, except that runs
which stop the holder go first. The outcome that a caller gets for its input matches the history.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from agent_actors import RunResult, Runtime, open_runtime
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import Event, SessionRewind, SystemInit, UserMessage
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import RunStopped, SessionBusy
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, pause, say
from tests.runs.helpers import SlowStore, check_history, check_quiet, check_records
from tests.runtime.sessions.busy_helpers import an_agent, asked

Kind = Literal["reject", "queue", "interrupt", "rollback", "steer", "stop"]
KINDS: tuple[Kind, ...] = ("reject", "queue", "interrupt", "rollback", "steer", "stop")
STOPPERS = ("interrupt", "rollback")


@attrs.frozen
class Act:
    """A caller that wants the session, or that only wants to stop the run that holds it."""

    kind: Kind
    naps: tuple[float, ...]
    patience: float
    run_timeout: float


TIMES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])
ACTS = st.builds(
    Act,
    kind=st.sampled_from(KINDS),
    naps=st.lists(TIMES, max_size=2).map(tuple),
    patience=st.sampled_from([0.25, 1.0, 3.0, 1e6, 1e6, 1e6]),
    run_timeout=st.sampled_from([1.5, 1e6, 1e6, 1e6]),
)


@attrs.define(eq=False)
class Party:
    """All callers that want the session, and the outcomes that they got."""

    runtime: Runtime
    results: dict[str, RunResult[object]] = attrs.field(factory=dict[str, RunResult[object]])
    left: set[str] = attrs.field(factory=set[str])
    refused: set[str] = attrs.field(factory=set[str])

    async def carry_out(self, name: str, act: Act) -> None:
        try:
            with trio.move_on_after(act.patience) as patience:
                if act.kind == "stop":
                    await self.runtime.interrupt("s", name)
                else:
                    await self.run(name, act, act.kind)
            if patience.cancelled_caught:
                self.left.add(name)
        except SessionBusy:
            assert act.kind == "reject"
            self.refused.add(name)
        except RunStopped:
            self.left.add(name)

    async def run(self, name: str, act: Act, on_busy: OnBusy) -> None:
        calls = [call("nap", {"seconds": seconds}) for seconds in act.naps]

        def script(_: ModelRequest) -> Turn:
            if calls:
                first, calls[:] = list(calls), []
                return [say("Well, "), pause(0.5), *first]
            return [say("Well, "), pause(0.5), say("so it is.")]

        options = an_agent(ScriptedModel(script), run_timeout=act.run_timeout)
        self.results[name] = await self.runtime.run(name, options, session_id="s", on_busy=on_busy)


def check_what_was_said(party: Party, records: Sequence[Event]) -> None:
    """Check that the callers' outcomes match the records."""
    said = [e.text for e in records if isinstance(e, UserMessage)]
    assert len(set(said)) == len(said), "each input was taken once or run once"
    runs_of = {e.text: e.run_id for e in records if isinstance(e, UserMessage)}
    undone = {e.run_id for e in records if isinstance(e, SessionRewind)}
    kept = asked(fold(records).history())
    assert kept == [text for text in said if runs_of[text] not in undone]
    for name, result in party.results.items():
        if result.stop_reason == "steered":
            assert name in said
            assert runs_of[name] != result.run_id
            continue
        assert result.stop_reason in ("completed", "interrupted", "rolled_back")
        assert (result.run_id in undone) == (result.stop_reason == "rolled_back")
        assert runs_of[name] == result.run_id, "a run that got its session has its prompt"
    assert not party.refused & set(said)


def check_order(acts: dict[str, Act], records: Sequence[Event]) -> None:
    """Check that waiting runs begin in order of arrival, and so do runs that stop others."""
    firsts = {e.run_id: e for e in reversed(records) if isinstance(e, UserMessage)}
    begun = [
        firsts[e.run_id].text for e in records if isinstance(e, SystemInit) and e.run_id in firsts
    ]
    for kinds in (("queue", "steer"), STOPPERS):
        order = [int(name) for name in begun if acts[name].kind in kinds]
        assert all(one < other for one, other in pairwise(order)), (kinds, begun)


@given(st.lists(st.tuples(TIMES, ACTS), max_size=7), st.booleans())
def test_concurrent_results_match_the_session(plan: list[tuple[float, Act]], slow: bool) -> None:
    acts = {str(number): act for number, (_, act) in enumerate(plan)}

    async def main() -> None:
        store = SlowStore() if slow else MemoryStore()
        async with open_runtime(store=store) as runtime:
            party = Party(runtime)
            async with trio.open_nursery() as nursery:
                for name, (delay, _) in enumerate(plan):
                    # Two callers never arrive in one tick, because their order would be undefined.
                    await trio.sleep(delay + 0.01)
                    nursery.start_soon(partial(party.carry_out, str(name), acts[str(name)]))
            check_quiet(runtime)
            assert not runtime._actors.services.inboxes
            records = [e for e in await store.load("s") if isinstance(e, Event)]
            check_records(records)
            history = runtime.history("s")
            if history is not None:
                check_history(history)
                assert fold(records).history() == history
            check_what_was_said(party, records)
            check_order(acts, records)
            again = await runtime.run("again", an_agent(), session_id="s")
            assert asked(again.messages)[-1] == "again"

    async def bounded() -> None:
        with trio.fail_after(86_400):
            await main()

    trio.run(bounded, clock=MockClock(autojump_threshold=0))

"""An approval queue over a question board without runs: any order of events keeps it consistent."""

from collections.abc import Callable
from typing import Literal, cast

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import ApprovalQueue
from agent_actors.actors.question_board import Answer, QuestionBoard, QuestionWatcher
from agent_actors.domain.run import Question
from agent_actors.errors import ConfigError
from agent_actors.permissions import PermissionDecision


class _Source:
    """A source of questions without runs."""

    def __init__(self) -> None:
        self.questions = QuestionBoard()
        self.answer: Callable[[str, Answer], None] = self.questions.answer

    def watch_questions(self, watcher: QuestionWatcher) -> Callable[[], None]:
        self.questions.watch(watcher)
        return lambda: self.questions.unwatch(watcher)


async def test_allowlist_answers_no_text_question() -> None:
    source = _Source()
    about = Question("1", "s", "r", "May it?", (), "", "x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.questions.ask, about, 7)
        await wait_all_tasks_blocked()
        with ApprovalQueue(source) as queue:
            queue.approve("1", whitelist="always")
            for number, permission in (("2", True), ("3", False)):
                asked = attrs.evolve(about, id=number, permission=permission)
                nursery.start_soon(source.questions.ask, asked, 7)
            await wait_all_tasks_blocked()
            assert [one.id for one in queue.pending()] == ["3"]
            queue.answer("3", "in words")


# Seconds; a question waits for 7.
TTL = 5.0
TOOLS, SESSIONS = st.sampled_from("xy"), st.sampled_from("st")
ASK = st.tuples(st.sampled_from(["ask", "ask", "ask in words"]), TOOLS, SESSIONS)
LIST = st.tuples(st.just("whitelist"), st.sampled_from(["session", "always"]))
OTHERS = st.one_of(
    st.tuples(st.just("revoke"), TOOLS, st.one_of(st.none(), SESSIONS)),
    st.tuples(st.sampled_from(["get", "approve", "deny", "elsewhere", "cancel"])),
    st.tuples(st.just("sleep"), st.sampled_from([0.5, 1.0, 4.0])),
)
# Each round asks some questions and adds one tool to the list; otherwise few would ever be listed.
STEPS = st.lists(st.tuples(ASK, ASK, LIST, ASK, OTHERS), max_size=8)


@given(STEPS)
def test_any_order_keeps_queue_consistent(
    rounds: list[tuple[tuple[str, ...], ...]],
) -> None:
    steps = [step for steps in rounds for step in steps]
    trio.run(_any_order, steps, clock=MockClock(autojump_threshold=0))


async def _any_order(steps: list[tuple[str, ...]]) -> None:
    source = _Source()
    with ApprovalQueue(source, whitelist_ttl=TTL) as queue:
        async with trio.open_nursery() as runs:
            simulation = _Simulation(source, queue, runs)
            for step in steps:
                await simulation.take(*step)
                await wait_all_tasks_blocked()
                simulation.check()
            runs.cancel_scope.cancel()
        assert queue.pending() == ()
    assert len(simulation.taken) == len(set(simulation.taken))


@attrs.define
class _Simulation:
    """The actions of people and runs so far, and the expected state of the queue."""

    source: _Source
    queue: ApprovalQueue
    runs: trio.Nursery
    taken: list[str] = attrs.field(factory=list[str])
    _listed: dict[tuple[str, str | None], float] = attrs.field(
        factory=dict[tuple[str, str | None], float]
    )
    _waiting: dict[str, trio.CancelScope] = attrs.field(factory=dict[str, trio.CancelScope])
    _answers: dict[str, Answer | None] = attrs.field(factory=dict[str, "Answer | None"])

    def check(self) -> None:
        assert self.queue.pending() == self.source.questions.pending()
        assert not any(self._covered(one) for one in self.queue.pending())
        now = trio.current_time()
        assert {(e.tool_name, e.session_id) for e in self.queue.whitelist()} == {
            place for place, until in self._listed.items() if until > now
        }

    async def take(self, what: str, *how: str) -> None:
        match what:
            case "ask" | "ask in words":
                await self._ask(*how, permission=what == "ask")
            case "sleep":
                await trio.sleep(float(how[0]))
            case "revoke":
                tool, where = how[0], cast("str | None", how[1])
                until = self._listed.pop((tool, where), 0.0)
                assert self.queue.revoke(tool, where) == (until > trio.current_time())
            case "get":
                new = [one.id for one in self.queue.pending() if one.id not in self.taken]
                with trio.move_on_after(0.1):
                    self.taken.append((await self.queue.get()).id)
                    assert self.taken[-1] == new[0]
            case _ if self.queue.pending():
                self._decide(self.queue.pending(), what, *how)
            case _:
                pass

    def _decide(self, pending: tuple[Question, ...], what: str, *how: str) -> None:
        oldest, one = pending[0], pending[-1]
        match what:
            case "whitelist" | "approve" if not one.permission:
                with pytest.raises(ConfigError, match="does not ask for permission"):
                    self.queue.approve(one.id)
                self.queue.answer(one.id, "in words")
            case "whitelist":
                scope = cast("Literal['session', 'always']", how[0])
                self.queue.approve(one.id, whitelist=scope)
                place = (one.tool_name, one.session_id if scope == "session" else None)
                self._listed[place] = trio.current_time() + TTL
            case "approve":
                self.queue.approve(one.id)
            case "deny":
                self.queue.deny(oldest.id)
            case "elsewhere":
                self.source.answer(oldest.id, "yes")
            case _:
                self._waiting[oldest.id].cancel()

    async def _ask(self, tool: str, session: str, *, permission: bool) -> None:
        asked = Question(str(len(self._waiting)), session, "r", "?", (), "", tool)
        asked = attrs.evolve(asked, permission=permission)
        self.runs.start_soon(self._wait, asked)
        await wait_all_tasks_blocked()
        approved = isinstance(self._answers.get(asked.id), PermissionDecision)
        assert approved == self._covered(asked)

    async def _wait(self, question: Question) -> None:
        with trio.CancelScope() as scope:
            self._waiting[question.id] = scope
            self._answers[question.id] = await self.source.questions.ask(question, 7)

    def _covered(self, question: Question) -> bool:
        now = trio.current_time()
        places = ((question.tool_name, question.session_id), (question.tool_name, None))
        return question.permission and any(self._listed.get(at, 0.0) > now for at in places)

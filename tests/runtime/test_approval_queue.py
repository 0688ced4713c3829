"""An approval queue: one queue for the questions of all sessions, and a list of approved tools."""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, ApprovalQueue, Runtime, Whitelisted, open_runtime
from agent_actors.domain.run import RunResult
from agent_actors.errors import ConfigError, QuestionClosed, RuntimeClosed, RuntimeFailure
from agent_actors.permissions import PermissionPolicy, Remember
from agent_actors.runtime import approval_queue as approvals
from agent_actors.testing import Turn, call, interleave
from agent_actors.tools.ask import ask_user_question
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE, agent, echo, ran, results


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


def asking(*turns: Turn, deny: Sequence[str] = ()) -> AgentOptions:
    return attrs.evolve(agent(*(turns or USE)), permissions=PermissionPolicy(deny=deny))


def both(*texts: str) -> list[Turn]:
    return [[interleave(*(call("echo", {"text": text}) for text in texts))], "Done."]


@attrs.define
class Scene:
    """A runtime with a queue, and runs that wait for answers from it."""

    runtime: Runtime
    queue: ApprovalQueue
    runs: trio.Nursery
    ended: dict[str, RunResult] = attrs.field(factory=dict[str, RunResult])

    async def start(self, session_id: str, *turns: Turn) -> None:
        """Start a run, and return when it waits or has ended."""
        self.runs.start_soon(self.run, session_id, asking(*turns))
        await wait_all_tasks_blocked()

    async def run(self, session_id: str, options: AgentOptions) -> None:
        self.ended[session_id] = await self.runtime.run("Go.", options, session_id=session_id)
        check_history(self.ended[session_id].messages)

    def waiting(self) -> list[tuple[str, object]]:
        return [(one.session_id, one.tool_input.get("text")) for one in self.queue.pending()]

    def entries(self) -> list[tuple[str, str | None, float]]:
        return [(e.tool_name, e.session_id, e.seconds_left) for e in self.queue.whitelist()]


def in_scene(
    body: Callable[[Scene], Awaitable[None]], *, ttl: float = 600.0, clock: MockClock | None = None
) -> None:
    """Call `body` with a runtime and a queue, and check at the end that both are empty."""

    async def main() -> None:
        async with open_runtime() as runtime:
            with ApprovalQueue(runtime, whitelist_ttl=ttl) as queue:
                async with trio.open_nursery() as runs:
                    await body(Scene(runtime, queue, runs))
                    runs.cancel_scope.cancel()
                assert len(queue) == 0, "a question of an ended run is left"
            check_quiet(runtime)
            assert runtime._actors.questions._watchers == []

    trio.run(main, clock=clock)


@pytest.mark.feature("OAGS-084", "OAGS-087")
def test_queue_alone_answers_prompt_mode() -> None:
    async def body(scene: Scene) -> None:
        options = attrs.evolve(agent(*USE), permissions="prompt", on_ask="wait")
        scene.runs.start_soon(scene.run, "s", options)
        scene.queue.approve((await scene.queue.get()).id)
        await wait_all_tasks_blocked()
        assert results(scene.ended["s"]) == ["said a"]

    in_scene(body)


@pytest.mark.feature("ASDK-065")
def test_questions_arrive_once_in_order() -> None:
    async def body(scene: Scene) -> None:
        for name in "abc":
            await scene.start(name)
        taken = [await scene.queue.get() for _ in range(3)]
        assert [one.session_id for one in taken] == ["a", "b", "c"]
        assert scene.queue.pending() == tuple(taken)
        assert scene.queue.pending("b") == (taken[1],)
        with trio.move_on_after(0) as scope:
            await scene.queue.get()
        assert scope.cancelled_caught, "each question is given out once"
        scene.queue.approve(taken[1].id)
        scene.queue.deny(taken[0].id, "not on a Friday")
        scene.queue.deny(taken[2].id)
        await wait_all_tasks_blocked()
        assert results(scene.ended["b"]) == ["said a"]
        assert results(scene.ended["a"]) == ["the call was not permitted: not on a Friday"]
        assert results(scene.ended["c"]) == ["the call was not permitted: a person said no"]

    in_scene(body)


def test_people_share_the_work_by_iterating() -> None:
    async def body(scene: Scene) -> None:
        seen: list[tuple[str, str]] = []

        async def work(person: str) -> None:
            async for question in scene.queue:
                seen.append((person, question.session_id))
                scene.queue.approve(question.id)

        for person in ("ann", "bob"):
            scene.runs.start_soon(work, person)
        for name in "abcd":
            await scene.start(name)
        assert sorted(session for _, session in seen) == ["a", "b", "c", "d"]
        assert {person for person, _ in seen} == {"ann", "bob"}, "they take turns"
        assert len(scene.ended) == 4

    in_scene(body)


def test_cancelled_waiter_takes_nothing() -> None:
    async def body(scene: Scene) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.queue.get)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await scene.start("a")
        with trio.CancelScope() as scope:
            scope.cancel()
            await scene.queue.get()
        assert scope.cancelled_caught
        assert (await scene.queue.get()).session_id == "a"

    in_scene(body)


def test_closed_question_leaves_the_queue() -> None:
    async def body(scene: Scene) -> None:
        await scene.start("elsewhere")
        (first,) = scene.queue.pending()
        scene.runtime.answer(first.id, "yes")
        with pytest.raises(QuestionClosed):
            scene.queue.approve(first.id)
        await scene.start("cancelled")
        await scene.runtime.interrupt("cancelled")
        await scene.start("late")
        await trio.sleep(301)
        assert results(scene.ended["late"])[0].endswith("no person answered within 300 s")
        await scene.start("open")
        assert scene.waiting() == [("open", "a")]
        assert (await scene.queue.get()).session_id == "open"

    in_scene(body, clock=MockClock(autojump_threshold=0.01))


def test_queues_share_questions_first_answer_wins() -> None:
    async def body(scene: Scene) -> None:
        await scene.start("a")
        with ApprovalQueue(scene.runtime) as late:
            mine, theirs = await scene.queue.get(), await late.get()
            assert mine is theirs
            late.deny(theirs.id)
            with pytest.raises(QuestionClosed):
                scene.queue.approve(mine.id)
            # A question that one queue approves by itself is not shown by another; each has its own
            # list.
            await scene.start("b")
            scene.queue.approve(scene.queue.pending()[0].id, whitelist="always")
            await scene.start("c")
            assert (len(late), scene.ended["c"].text, late.whitelist()) == (0, "Done.", ())
        assert results(scene.ended["a"])[0].startswith("the call was not permitted")

    in_scene(body)


# --- the whitelist ---


@pytest.mark.feature("ASDK-066")
def test_allowlisted_tool_is_approved_until_expiry() -> None:
    async def body(scene: Scene) -> None:
        began = trio.current_time()
        await scene.start("s")
        scene.queue.approve((await scene.queue.get()).id, whitelist="session")
        assert scene.entries() == [("echo", "s", 60)]
        await wait_all_tasks_blocked()
        await trio.sleep_until(began + 59.5)
        assert scene.queue.whitelist() == (Whitelisted("echo", "s", 0.5),)
        await scene.start("s", *both("b", "c"))
        assert (scene.waiting(), sorted(ran)) == ([], ["a", "b", "c"])
        await trio.sleep_until(began + 60)
        await scene.start("s", *both("d"))
        assert scene.waiting() == [("s", "d")], "the approval ends exactly then"
        assert scene.entries() == []

    in_scene(body, ttl=60, clock=MockClock(autojump_threshold=0.01))


@pytest.mark.parametrize(
    ("scope", "left"), [("session", [("t", "b"), ("t", "c")]), ("always", list[object]())]
)
def test_entry_also_approves_waiting_questions(
    scope: Literal["session", "always"], left: list[object]
) -> None:
    async def body(scene: Scene) -> None:
        await scene.start("s", *both("a", "b", "c"))
        await scene.start("t", *both("b", "c"))
        scene.queue.approve((await scene.queue.get()).id, whitelist=scope)
        assert scene.waiting() == left
        await wait_all_tasks_blocked()
        assert results(scene.ended["s"]) == ["said a", "said b", "said c"]

    in_scene(body)


@pytest.mark.feature("ASDK-066")
def test_entry_matches_tool_and_session_only() -> None:
    async def body(scene: Scene) -> None:
        await scene.start("s")
        scene.queue.approve((await scene.queue.get()).id, whitelist="session")
        await wait_all_tasks_blocked()
        await scene.start("S")
        assert scene.waiting() == [("S", "a")]
        refused = await _run_in(scene, "s", asking(*both("secret"), deny=["echo(text=secret)"]))
        assert "denied by the rule 'echo(text=secret)'" in refused
        planned = attrs.evolve(asking(*USE), permissions=PermissionPolicy(mode="plan"))
        assert "not permitted" in await _run_in(scene, "s", planned)
        assert ran == ["a"]

    in_scene(body)


async def _run_in(scene: Scene, session_id: str, options: AgentOptions) -> str:
    result = await scene.runtime.run("Go.", options, session_id=session_id)
    return results(result)[0]


def test_revoked_entry_asks_again() -> None:
    async def body(scene: Scene) -> None:
        for session_id, scope in (("s", "session"), ("t", "always")):
            await scene.start(session_id)
            (question,) = scene.queue.pending()
            scene.queue.approve(question.id, whitelist=cast("Literal['session']", scope))
            await wait_all_tasks_blocked()
        assert scene.entries() == [("echo", "s", math.inf), ("echo", None, math.inf)]
        assert scene.queue.revoke("echo")
        assert not scene.queue.revoke("echo")
        assert not scene.queue.revoke("echo", "t")
        await scene.start("s")
        await scene.start("t")
        assert scene.waiting() == [("t", "a")]
        scene.queue.revoke_all()
        await scene.start("s")
        assert len(scene.queue) == 2

    in_scene(body, ttl=math.inf)


def test_departing_session_removes_its_entry() -> None:
    async def body(scene: Scene) -> None:
        await scene.start("s")
        scene.queue.approve((await scene.queue.get()).id, whitelist="session")
        await wait_all_tasks_blocked()
        await scene.runtime.sessions.delete("s")
        assert scene.entries() == []
        await scene.start("s")
        assert scene.waiting() == [("s", "a")], "a new session has the same id"

    in_scene(body)


def test_the_whitelist_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "MAX_WHITELISTED", 2)

    async def body(scene: Scene) -> None:
        for name in "abac":
            await scene.start(name, *both(name))
            for question in scene.queue.pending():
                scene.queue.approve(question.id, whitelist="session")
            await wait_all_tasks_blocked()
        assert [entry[1] for entry in scene.entries()] == ["b", "c"]

    in_scene(body)


# --- other answers ---


def test_approval_may_rewrite_or_be_remembered() -> None:
    async def body(scene: Scene) -> None:
        await scene.start("s")
        scene.queue.approve((await scene.queue.get()).id, input={"text": "b"})
        await wait_all_tasks_blocked()
        await scene.start("s")
        rule = Remember("session", ttl=60, rule="echo(text=a*)")
        scene.queue.approve((await scene.queue.get()).id, remember=rule)
        await wait_all_tasks_blocked()
        await scene.start("s", *both("ab", "c"))
        assert scene.waiting() == [("s", "c")]
        scene.queue.deny((await scene.queue.get()).id, "no", remember="session")
        await wait_all_tasks_blocked()
        await scene.start("s", *both("c"))
        assert results(scene.ended["s"]) == ["the call was not permitted: no"]
        assert (ran, scene.entries()) == (["b", "a", "ab"], [])

    in_scene(body)


def test_text_question_takes_no_approval() -> None:
    async def body(scene: Scene) -> None:
        options = agent(call("AskUserQuestion", {"question": "Which one?"}), "Done.")
        options = attrs.evolve(options, tools=[ask_user_question, echo])
        scene.runs.start_soon(scene.run, "s", options)
        question = await scene.queue.get()
        assert (question.prompt, question.permission) == ("Which one?", False)
        with pytest.raises(
            ConfigError, match=r"does not ask for permission; answer it with answer"
        ):
            scene.queue.approve(question.id, whitelist="always")
        scene.queue.answer(question.id, "The red one.")
        with pytest.raises(QuestionClosed):
            scene.queue.answer(question.id, "The blue one.")
        await wait_all_tasks_blocked()
        assert results(scene.ended["s"]) == ["The red one."]

    in_scene(body)


def test_contradictory_entry_is_refused() -> None:
    async def body(scene: Scene) -> None:
        await scene.start("s")
        (question,) = scene.queue.pending()
        with pytest.raises(ConfigError, match="'session' or 'always', or None; got 'once'"):
            scene.queue.approve(question.id, whitelist=cast("Literal['session']", "once"))
        with pytest.raises(ConfigError, match="cannot be combined with"):
            scene.queue.approve(question.id, whitelist="session", input={"text": "b"})
        with pytest.raises(ConfigError, match="cannot be combined with"):
            scene.queue.approve(question.id, whitelist="session", remember="once")
        assert (scene.queue.pending(), scene.entries()) == ((question,), [])
        for missing in (scene.queue.approve, scene.queue.deny):
            with pytest.raises(QuestionClosed):
                missing("nobody asked")

    in_scene(body)
    for ttl in (0, -1, math.nan):
        with pytest.raises(ConfigError, match="whitelist_ttl must be above 0 seconds"):
            ApprovalQueue(open_runtime(), whitelist_ttl=ttl)


# --- opening and closing ---


async def test_queue_works_only_while_entered() -> None:
    async with open_runtime() as runtime:
        queue = ApprovalQueue(runtime)
        with pytest.raises(RuntimeFailure, match="the queue is not entered"):
            await queue.get()
        with pytest.raises(RuntimeFailure, match="the queue is not entered"):
            queue.approve("any")
        with queue, pytest.raises(RuntimeFailure, match="entered only once"):
            queue.__enter__()
        with pytest.raises(RuntimeClosed):
            await queue.get()
        with pytest.raises(RuntimeClosed):
            queue.deny("any")
        with pytest.raises(RuntimeFailure, match="entered only once"):
            queue.__enter__()
        unused = ApprovalQueue(runtime)
        unused.__exit__(None, None, None)
    with pytest.raises(RuntimeClosed):
        ApprovalQueue(runtime).__enter__()


async def test_waiters_learn_that_queue_closed() -> None:
    ends: list[str] = []

    async def iterate(queue: ApprovalQueue) -> None:
        async for _ in queue:
            pytest.fail("nothing was asked")
        ends.append("end")

    async def take(queue: ApprovalQueue) -> None:
        with pytest.raises(RuntimeClosed):
            await queue.get()
        ends.append("closed")

    async with trio.open_nursery() as nursery, open_runtime() as runtime:
        queue = ApprovalQueue(runtime)
        with queue:
            nursery.start_soon(iterate, queue)
            nursery.start_soon(take, queue)
            await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        assert sorted(ends) == ["closed", "end"]
        kept = ApprovalQueue(runtime)
        kept.__enter__()
        nursery.start_soon(iterate, kept)
        await wait_all_tasks_blocked()
    assert sorted(ends) == ["closed", "end", "end"]
    kept.__exit__(None, None, None)

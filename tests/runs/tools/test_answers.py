"""A wrong answer is reported to the person who gave it, and the question stays open."""

from pathlib import PurePath
from typing import TYPE_CHECKING, cast

import attrs
import pytest
import trio

from agent_actors import AgentOptions, ApprovalQueue, Runtime, open_runtime, tool
from agent_actors.actors.question_board import Answer
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import Event, Notification
from agent_actors.errors import ConfigError
from agent_actors.hooks import HookDecision, Hooks, PreToolUseEvent
from agent_actors.permissions import DecisionContext, PermissionDecision, PermissionPolicy, Remember
from agent_actors.runs.tools.tool_guard import validate_remember_rule
from agent_actors.stores.memory import MemoryStore
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE, agent, ran, results

if TYPE_CHECKING:
    from agent_actors.domain.run import RunResult

ASKS = PermissionPolicy(ask=["echo"])
ALLOWED = PermissionDecision("allow", remember=Remember("session", rule="echo(text=a)"))


def misfit(rule: str, behavior: str = "allow") -> Answer:
    remember = Remember("session", rule=rule)
    if behavior == "deny":
        return PermissionDecision("deny", remember=remember)
    return PermissionDecision("allow", remember=remember)


WRONG: list[tuple[Answer, str]] = [
    (cast("Answer", True), "an answer must be a str .* or a PermissionDecision"),
    (cast("Answer", 5), "got 5"),
    (cast("Answer", None), "got None"),
    (cast("Answer", ["yes"]), r"got \['yes'\]"),
    (misfit("other(x)"), "must name the tool of the call, 'echo'"),
    (misfit("echo(text=b)"), "does not match the call"),
    (misfit("echo(text=b)", "deny"), "does not match the call"),
    (misfit("echo((("), "echo"),
]
wrong = pytest.mark.parametrize(("answer", "says"), WRONG, ids=lambda one: repr(one)[:30])


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


def asking(**changes: object) -> AgentOptions:
    hooks = cast("Hooks", changes.pop("hooks", ()))
    made = attrs.evolve(agent(*USE, "Fine.", hooks=hooks), permissions=ASKS)
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


async def until_asked(runtime: Runtime) -> str:
    with ApprovalQueue(runtime) as queue:
        return (await queue.get()).id


@wrong
async def test_wrong_answer_keeps_question_open(answer: Answer, says: str) -> None:
    found: list[RunResult] = []
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def go() -> None:
            found.append(await runtime.run("Go.", asking()))

        nursery.start_soon(go)
        question_id = await until_asked(runtime)
        with pytest.raises(ConfigError, match=says):
            runtime.answer(question_id, answer)
        assert [question.id for question in runtime.questions()] == [question_id]
        runtime.answer(question_id, ALLOWED)
    assert results(found[0]) == ["said a"]
    check_quiet(runtime)


@wrong
async def test_queue_reports_wrong_answer(answer: Answer, says: str) -> None:
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(runtime.run, "Go.", asking())
        with ApprovalQueue(runtime) as queue:
            question = await queue.get()
            with pytest.raises(ConfigError, match=says):
                queue.answer(question.id, answer)
            if isinstance(answer, PermissionDecision):
                decide = queue.approve if answer.behavior == "allow" else queue.deny
                with pytest.raises(ConfigError, match=says):
                    decide(question.id, remember=answer.remember)
            assert queue.pending() == (question,)
            queue.approve(question.id)
    assert ran == ["a"]


@wrong
async def test_wrong_answer_keeps_run_suspended(answer: Answer, says: str) -> None:
    options = asking(on_ask="suspend")
    async with open_runtime() as runtime:
        first = await runtime.run("Go.", options, session_id="s")
        question_id = first.questions[0].id
        with pytest.raises(ConfigError, match=says):
            await runtime.resume("s", {question_id: answer}, options)
        assert ran == []
        again = await runtime.resume("s", {question_id: ALLOWED}, options)
        assert results(again) == ["said a"]
        check_history(again.messages)
        check_quiet(runtime)


async def test_unusable_answer_is_asked_again() -> None:
    rewritten = ["c", "d"]

    async def another(event: PreToolUseEvent) -> HookDecision | None:
        if event.recheck:
            return None
        return HookDecision(modified_input={"text": rewritten.pop(0)})

    options = asking(on_ask="suspend", hooks={"before_tool": another})
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        first = await runtime.run("Go.", options, session_id="s")
        answer = misfit("echo(text=c)")
        again = await runtime.resume("s", {first.questions[0].id: answer}, options)
        assert again.stop_reason == "awaiting_approval"
        assert again.questions[0].tool_input == {"text": "d"}
        assert again.questions[0].id != first.questions[0].id
        records = await store.load("s", after_seq=0)
        reports = [
            one.text
            for one in records
            if isinstance(one, Event | Notification) and isinstance(one, Notification)
        ]
        assert "is not valid, so a person is asked again" in reports[0]
        rewritten.append("d")
        last = await runtime.resume("s", {again.questions[0].id: "yes"}, options)
        assert results(last) == ["said d"]
        check_history(last.messages)


async def test_answer_matches_rewritten_call() -> None:
    async def another(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"text": "c"})

    options = asking(on_ask="suspend", hooks={"before_tool": another})
    async with open_runtime() as runtime:
        first = await runtime.run("Go.", options, session_id="s")
        answer = misfit("echo(text=c)")
        again = await runtime.resume("s", {first.questions[0].id: answer}, options)
        assert results(again) == ["said c"]


def test_denial_and_approval_follow_their_rules() -> None:
    @tool
    async def shell(command: str) -> str:
        """Run a command."""
        return command

    both = ToolUseBlock("c", "shell", {"command": "git status; rm -r x"})
    situation = DecisionContext(PurePath("/"))
    remember = Remember("session", rule="shell(git *)")
    validate_remember_rule(PermissionDecision("deny", remember=remember), both, shell, situation)
    with pytest.raises(ConfigError, match="does not match the call"):
        validate_remember_rule(
            PermissionDecision("allow", remember=remember), both, shell, situation
        )

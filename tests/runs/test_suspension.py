"""Runs that end with open questions, and resume with the answers: later, elsewhere, or never."""

from pathlib import Path

import attrs
import pytest

from agent_actors import AgentOptions, Runtime, open_runtime
from agent_actors.domain.events import RunSuspended, UserQuestion
from agent_actors.domain.run import RunResult
from agent_actors.errors import ConfigError, QuestionClosed, SessionSuspended, SessionUnknown
from agent_actors.hooks import HookDecision, PreToolUseEvent
from agent_actors.permissions import PermissionDecision, PermissionPolicy
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import Turn, call, interleave
from agent_actors.tools.ask import ask_user_question
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE, agent, asked, echo, ran, results
from tests.runtime.sessions.helpers import DISK


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


def suspending(*turns: Turn, ask: str = "echo") -> AgentOptions:
    return attrs.evolve(
        agent(*(turns or USE)),
        permissions=PermissionPolicy(ask=[ask], mode="bypass"),
        on_ask="suspend",
    )


async def suspended(runtime: Runtime, options: AgentOptions) -> RunResult:
    result = await runtime.run("Go.", options, session_id="s")
    assert result.stop_reason == "awaiting_approval"
    check_history(result.messages)
    check_quiet(runtime)
    return result


async def test_suspended_run_resumes_with_answers() -> None:
    options = suspending()
    async with open_runtime() as runtime:
        first = await suspended(runtime, options)
        (question,) = first.questions
        assert (question.tool_name, question.tool_input) == ("echo", {"text": "a"})
        assert runtime.questions() == (), "no run waits"
        assert (ran, first.tool_calls) == ([], ())
        result = await runtime.resume("s", {question.id: "yes"}, options)
        assert (result.text, result.questions, ran) == ("Done.", (), ["a"])
        assert results(result) == ["said a"]
        check_history(result.messages)
        assert [message.role for message in result.messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        check_quiet(runtime)


async def test_denial_is_reported_and_decision_may_rewrite() -> None:
    for answer, contents in (
        ("no", "the call was not permitted: a person said no"),
        (PermissionDecision("allow", input={"text": "b"}), "said b"),
    ):
        options = suspending()
        async with open_runtime() as runtime:
            (question,) = (await suspended(runtime, options)).questions
            assert results(await runtime.resume("s", {question.id: answer}, options)) == [contents]


async def test_other_runtime_resumes_from_log() -> None:
    class Kept(MemoryStore):
        def evicted(self, session_id: str) -> None:
            """Keep the session, because another runtime reads it."""

        async def aclose(self) -> None:
            """Stay open."""

    store, options = Kept(), suspending()
    async with open_runtime(store=store) as runtime:
        (question,) = (await suspended(runtime, options)).questions
    records = await store.load("s")
    assert [type(r) for r in records if isinstance(r, UserQuestion | RunSuspended)] == [
        UserQuestion,
        RunSuspended,
    ]
    async with open_runtime(store=store) as runtime:
        with pytest.raises(SessionSuspended, match=f"is waiting for answers to {question.id}"):
            await runtime.run("Hello?", options, session_id="s")
        result = await runtime.resume("s", {question.id: "y"}, options)
        assert (result.text, ran) == ("Done.", ["a"])
        assert (await runtime.run("And?", agent("Fine."), session_id="s")).text == "Fine."


async def test_unasked_calls_finish_before_suspension() -> None:
    turn = interleave(*(call("echo", {"text": text}) for text in "abc"))
    options = suspending([turn], "Done.", ask="echo(text=b)")
    async with open_runtime() as runtime:
        first = await suspended(runtime, options)
        assert sorted(ran) == ["a", "c"]
        assert len(first.tool_calls) == 2
        (question,) = first.questions
        result = await runtime.resume("s", {question.id: "y"}, options)
        assert sorted(ran) == ["a", "b", "c"]
        contents = [message.content for message in result.messages if message.role == "tool"]
        assert contents == ["said a", "said b", "said c"]


async def test_unanswered_questions_are_asked_again() -> None:
    turn = interleave(*(call("echo", {"text": text}) for text in "ab"))
    options = suspending([turn], "Done.")
    async with open_runtime() as runtime:
        one, two = (await suspended(runtime, options)).questions
        again = await runtime.resume("s", {one.id: "y"}, options)
        assert again.stop_reason == "awaiting_approval"
        (left,) = again.questions
        assert left.tool_use_id == two.tool_use_id
        assert left.id != two.id
        assert ran == ["a"]
        with pytest.raises(QuestionClosed):
            await runtime.resume("s", {two.id: "y"}, options)
        assert (await runtime.resume("s", {left.id: "y"}, options)).text == "Done."
        assert ran == ["a", "b"]


async def test_a_prompt_may_deny_open_questions() -> None:
    options = suspending(*USE[:1], "Never mind, then.")
    async with open_runtime() as runtime:
        await suspended(runtime, options)
        denying = attrs.evolve(options, on_suspended="deny")
        result = await runtime.run("Forget it.", denying, session_id="s")
        assert (result.text, ran) == ("Never mind, then.", [])
        check_history(result.messages)
        contents = [message.content for message in result.messages if message.role == "tool"]
        assert contents == [
            (
                "the call was not permitted: "
                "the user sent another message before the question was answered"
            )
        ]
        assert asked(options)[-1].messages.last_content() == "Forget it."


async def test_nothing_to_resume_is_an_error() -> None:
    async with open_runtime() as runtime:
        with pytest.raises(SessionUnknown):
            await runtime.resume("new", {}, agent("Done."))
        await runtime.run("Hi.", agent("Hello."), session_id="other")
        with pytest.raises(SessionSuspended, match="it is not waiting for answers"):
            await runtime.resume("other", {}, agent("Done."))
        options = suspending()
        (question,) = (await suspended(runtime, options)).questions
        with pytest.raises(QuestionClosed):
            await runtime.resume("s", {"other": "yes"}, options)
        assert (await runtime.resume("s", {question.id: "yes"}, options)).text == "Done."
    with pytest.raises(ConfigError, match="on_suspended must be 'raise' or 'deny'"):
        attrs.evolve(options, on_suspended="maybe")  # type: ignore[arg-type]


async def test_refused_run_records_nothing() -> None:
    options = suspending()
    async with open_runtime() as runtime:
        (question,) = (await suspended(runtime, options)).questions
        records = await runtime.sessions.records("s")
        info = await runtime.sessions.info("s")
        other = attrs.evolve(options, model="other")
        for session_id, answers, error in (
            ("typo", {question.id: "yes"}, SessionUnknown),
            ("s", {"other": "yes"}, QuestionClosed),
        ):
            with pytest.raises(error):
                await runtime.resume(session_id, answers, other)
        with pytest.raises(SessionSuspended):
            await runtime.run("Hi.", other, session_id="s")
        assert [one.session_id for one in (await runtime.list_sessions()).sessions] == ["s"]
        assert await runtime.sessions.records("s") == records
        assert await runtime.sessions.info("s") == info
        assert (await runtime.resume("s", {question.id: "yes"}, options)).text == "Done."


async def test_refused_run_shows_its_error() -> None:
    async with open_runtime() as runtime:
        await suspended(runtime, suspending())
        shown: list[tuple[str, int | None]] = []

        async def read() -> None:
            async with runtime.stream("Hi.", agent("Done."), session_id="s") as events:
                async for event in events:
                    shown.append((event.type, event.seq))  # noqa: PERF401 - kept if the stream raises

        with pytest.raises(SessionSuspended):
            await read()
        assert shown == [("error", None)]


@pytest.mark.parametrize("kind", DISK)
async def test_snapshot_has_complete_questions(kind: str, tmp_path: Path) -> None:
    turn = interleave(
        call("echo", {"text": "a"}),
        call("AskUserQuestion", {"question": "Which one?", "choices": ["red", "blue"]}),
    )
    options = attrs.evolve(suspending(turn, "Done."), tools=[ask_user_question, echo])
    async with open_runtime(store=DISK[kind](tmp_path / "store")) as runtime:
        asked_here = (await suspended(runtime, options)).questions
    async with open_runtime(store=DISK[kind](tmp_path / "store")) as runtime:
        snapshot = await runtime.sessions.snapshot("s")
        assert snapshot is not None
        asked_there = snapshot.questions
        # The event is recorded a moment after the question was created.
        assert [attrs.evolve(one, asked_at=0) for one in asked_there] == [
            attrs.evolve(one, asked_at=0) for one in asked_here
        ]
        assert all(one.asked_at for one in asked_there)
        answers = {one.id: "yes" if one.permission else one.choices[1] for one in asked_there}
        result = await runtime.resume("s", answers, options)
        assert results(result) == ["said a", "blue"]


async def test_hooks_apply_on_resume() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="changed my mind")

    options = suspending()
    async with open_runtime() as runtime:
        (question,) = (await suspended(runtime, options)).questions
        later = attrs.evolve(options, hooks={"before_tool": refuse})
        result = await runtime.resume("s", {question.id: "yes"}, later)
        assert results(result) == ["the call was refused: changed my mind"]
        assert ran == []


async def test_model_question_may_wait_for_days() -> None:
    turns: list[Turn] = [call("AskUserQuestion", {"question": "Which one?"}), "Done."]
    options = attrs.evolve(agent(*turns), tools=[ask_user_question, echo], on_ask="suspend")
    async with open_runtime() as runtime:
        (question,) = (await suspended(runtime, options)).questions
        assert question.prompt == "Which one?"
        result = await runtime.resume("s", {question.id: "The red one."}, options)
        assert results(result) == ["The red one."]


@pytest.mark.parametrize(
    "later", [None, PermissionPolicy(mode="bypass"), PermissionPolicy(allow=["echo"])]
)
async def test_denial_holds_after_policy_change(
    later: PermissionPolicy | None,
) -> None:
    options = suspending()
    async with open_runtime() as runtime:
        (question,) = (await suspended(runtime, options)).questions
        changed = attrs.evolve(options, permissions=later)
        result = await runtime.resume("s", {question.id: "no"}, changed)
        assert results(result) == ["the call was not permitted: a person said no"]
        assert ran == []

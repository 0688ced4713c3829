"""Permissions in a run: allowed calls, permission prompts, and denials that nothing overrides."""

from typing import Literal, cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import AnyEvent, Notification, ToolResult, UserQuestion
from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import Question, RunResult
from agent_actors.errors import ConfigError, HookError, QuestionClosed
from agent_actors.hooks import HookContext, HookDecision, PreToolUseEvent, ToolCall
from agent_actors.permissions import (
    CanUseTool,
    InteractiveApprover,
    PermissionDecision,
    PermissionPolicy,
    PermissionRequest,
    Remember,
)
from agent_actors.testing import ScriptedModel, Turn, call, interleave, pause, say
from agent_actors.tools.ask import ask_user_question
from agent_actors.tools.output import ToolOutput
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE, agent, asked, echo, ran, results


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


ASK = PermissionPolicy(ask=["echo"])


def with_policy(*turns: Turn, policy: PermissionPolicy = ASK) -> AgentOptions:
    return attrs.evolve(agent(*(turns or USE)), permissions=policy)


async def run(options: AgentOptions) -> RunResult:
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, session_id="s")
        check_history(result.messages)
        check_quiet(runtime)
        return result


async def the_question(runtime: Runtime) -> Question:
    while not runtime.questions():
        await trio.testing.wait_all_tasks_blocked()
    return runtime.questions()[0]


async def asked_and_answered(
    options: AgentOptions, *answers: str | PermissionDecision
) -> RunResult:
    """Run, and answer the questions in order from another task."""
    async with open_runtime() as runtime:

        async def answer() -> None:
            for one in answers:
                runtime.answer((await the_question(runtime)).id, one)
                await wait_all_tasks_blocked()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            result = await runtime.run("Go.", options, session_id="s")
            nursery.cancel_scope.cancel()
        check_history(result.messages)
        assert runtime.questions() == ()
    return result


# --- offered tools ---


@pytest.mark.feature("ASDK-106")
async def test_hidden_tool_is_refused_when_called() -> None:
    options = with_policy(policy=PermissionPolicy(disallowed_tools=["echo"]))
    result = await run(options)
    assert asked(options)[0].tools == ()
    assert ran == []
    assert result.tool_calls[0].is_error


@pytest.mark.feature("ASDK-070", "ASDK-089")
async def test_allowlist_narrows_but_never_widens() -> None:
    @tool
    async def other() -> str:
        """Another."""
        return "other"

    options = attrs.evolve(agent("One.", "Two."), tools=[echo, other])
    async with open_runtime() as runtime:
        async with runtime.stream("Go.", options, tool_whitelist=["echo", "no_such"]) as events:
            notifications = [event async for event in events if isinstance(event, Notification)]
        assert [event.data for event in notifications] == [{"tool": "no_such"}]
        denied = attrs.evolve(options, permissions=PermissionPolicy(disallowed_tools=["echo"]))
        await runtime.run("Go.", denied, tool_whitelist=["echo", "other"])
        with pytest.raises(ConfigError, match="tool_whitelist must be a list of names; got 'echo'"):
            await runtime.run("Go.", options, tool_whitelist="echo")
    offered = [[spec.name for spec in request.tools] for request in asked(options)]
    assert offered == [["echo"], ["other"]]


@pytest.mark.feature("OAGS-083")
@pytest.mark.parametrize(("mode", "text"), [("bypass", "said a"), ("deny", "not permitted")])
async def test_mode_decides_the_fate_of_calls(mode: str, text: str) -> None:
    result = await run(attrs.evolve(agent(*USE), permissions=mode))
    assert text in results(result)[0]


@pytest.mark.feature("OAGS-087")
def test_ask_mode_needs_an_approver() -> None:
    with pytest.raises(ConfigError, match="there is no approver"):
        attrs.evolve(agent(*USE), permissions="prompt")
    assert attrs.evolve(agent(*USE), permissions="prompt", on_ask="suspend").permissions
    with pytest.raises(ConfigError, match="on_ask must be 'wait' or 'suspend'; got 'maybe'"):
        attrs.evolve(agent(*USE), on_ask=cast(Literal["wait"], "maybe"))


# --- asking ---


@pytest.mark.feature("ASDK-065", "OAGS-088", "OAGS-089", "OAGS-091")
@pytest.mark.parametrize(("answer", "text"), [("Yes ", "said a"), ("perhaps", "not permitted")])
async def test_person_answers_from_another_task(answer: str, text: str) -> None:
    async with open_runtime() as runtime:
        seen: list[AnyEvent] = []
        async with runtime.stream("Go.", with_policy(), session_id="s") as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, UserQuestion):
                    (question,) = runtime.questions("s")
                    assert runtime.questions("other") == ()
                    assert (question.id, question.tool_input) == (event.question_id, {"text": "a"})
                    assert (question.prompt, question.choices) == (event.prompt, event.choices)
                    assert event.choices == ("yes", "session", "always", "no")
                    assert "echo" in event.prompt
                    runtime.answer(event.question_id, answer)
                    with pytest.raises(QuestionClosed, match="it was answered"):
                        runtime.answer(event.question_id, "yes")
        kinds = [type(e) for e in seen if isinstance(e, UserQuestion | ToolResult)]
        assert kinds == [UserQuestion, ToolResult]
        assert events.result is not None
        assert text in results(events.result)[0]


async def test_unanswered_question_is_a_denial(autojump_clock: MockClock) -> None:
    result = await run(with_policy())
    assert results(result) == ["the call was not permitted: no person answered within 300 s"]
    assert trio.current_time() >= 300


async def test_time_of_a_person_does_not_count(autojump_clock: MockClock) -> None:
    options = attrs.evolve(with_policy(call("echo", {"text": "a"}), [pause(4), say("Done.")]))
    options = attrs.evolve(options, run_timeout=5)
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def answer() -> None:
            question = await the_question(runtime)
            await trio.sleep(100)
            runtime.answer(question.id, "y")

        nursery.start_soon(answer)
        assert (await runtime.run("Go.", options)).text == "Done."


async def test_other_calls_continue_during_question(autojump_clock: MockClock) -> None:
    @tool(read_only=True, open_world=False)
    async def look() -> str:
        """Look."""
        ran.append("looked")
        return "seen"

    turn = interleave(call("echo", {"text": "a"}), call("look", {}))
    options = attrs.evolve(with_policy([turn], "Done."), tools=[echo, look])
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def answer() -> None:
            question = await the_question(runtime)
            await trio.sleep(10)
            assert ran == ["looked"]
            runtime.answer(question.id, "y")

        nursery.start_soon(answer)
        await runtime.run("Go.", options)
    assert ran == ["looked", "a"]


async def test_cancelled_run_closes_its_question() -> None:
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(runtime.run, "Go.", with_policy())
        question = await the_question(runtime)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
        assert runtime.questions() == ()
        with pytest.raises(QuestionClosed):
            runtime.answer(question.id, "yes")


async def test_50_sessions_continue_during_one_question() -> None:
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        done: list[str] = []

        async def other(name: str) -> None:
            options = AgentOptions(
                model="m",
                provider=ScriptedModel([call("echo", {"text": "x"}), "Fine."]),
                tools=[echo],
            )
            done.append((await runtime.run("Go.", options, session_id=name)).text)

        async def waiting() -> None:
            done.append((await runtime.run("Go.", with_policy(), session_id="s")).text)

        nursery.start_soon(waiting)
        question = await the_question(runtime)
        for number in range(50):
            nursery.start_soon(other, str(number))
        while len(done) < 50:
            await trio.testing.wait_all_tasks_blocked()
        assert set(done) == {"Fine."}
        runtime.answer(question.id, "yes")
    assert done[-1] == "Done."


# --- callbacks that decide instead of a person ---


def says_yes(request: PermissionRequest) -> bool:
    return True


def says_no(request: PermissionRequest) -> bool:
    return False


def hands_on(request: PermissionRequest) -> PermissionDecision:
    return PermissionDecision("ask")


@pytest.mark.feature("ASDK-064", "OAGS-085", "OAGS-086", "OAS-111")
@pytest.mark.parametrize(
    ("can_use_tool", "text"),
    [
        (says_yes, "said a"),
        (says_no, "not permitted"),
        (InteractiveApprover(lambda prompt: " YES"), "said a"),
        (InteractiveApprover(lambda prompt: "n"), "not permitted"),
    ],
)
async def test_a_function_may_decide(can_use_tool: CanUseTool, text: str) -> None:
    options = attrs.evolve(with_policy(), can_use_tool=can_use_tool, permissions="prompt")
    assert text in results(await run(options))[0]


@pytest.mark.feature("OAGS-088")
async def test_question_to_function_is_an_event() -> None:
    options = attrs.evolve(with_policy(), can_use_tool=hands_on)
    seen: list[UserQuestion] = []
    async with open_runtime() as runtime, runtime.stream("Go.", options) as events:
        async for event in events:
            if isinstance(event, UserQuestion):
                seen.append(event)
                if event.by_function:
                    with pytest.raises(QuestionClosed):
                        runtime.answer(event.question_id, "yes")
                else:
                    runtime.answer(event.question_id, "yes")
    first, second = seen
    assert (first.by_function, second.by_function) == (True, False)
    assert (first.prompt, first.choices, first.tool_input) == (
        second.prompt,
        second.choices,
        {"text": "a"},
    )
    assert first.question_id != second.question_id


@pytest.mark.feature("OAGS-090")
async def test_async_approver_may_rewrite_the_call() -> None:
    async def decide(request: PermissionRequest) -> PermissionDecision:
        await trio.lowlevel.checkpoint()
        assert (request.call.name, request.session_id) == ("echo", "s")
        request.call.input["text"] = "scribbled"
        return PermissionDecision("allow", input={"text": "b"})

    result = await run(attrs.evolve(with_policy(), can_use_tool=decide))
    assert results(result) == ["said b"]
    assert ran == ["b"]


async def test_a_function_may_pass_the_question_on() -> None:
    options = attrs.evolve(with_policy(), can_use_tool=hands_on)
    assert results(await asked_and_answered(options, "yes")) == ["said a"]


async def test_hanging_approver_denies_in_time(autojump_clock: MockClock) -> None:
    async def hang(request: PermissionRequest) -> bool:
        await trio.sleep_forever()

    hanging = attrs.evolve(with_policy(), can_use_tool=hang)
    assert "can_use_tool did not decide within 300 s" in results(await run(hanging))[0]


async def test_failing_approver_harms_only_its_run() -> None:
    # Sync functions run in threads, and a virtual clock does not wait for threads.
    def broken(request: PermissionRequest) -> bool:
        raise ValueError("odd")

    def forgetful(request: PermissionRequest) -> None:
        pass

    with pytest.raises(
        HookError, match="hook can_use_tool in permission: the callback raised ValueError: odd"
    ):
        await run(attrs.evolve(with_policy(), can_use_tool=broken))
    with pytest.raises(HookError, match="got NoneType"):
        await run(attrs.evolve(with_policy(), can_use_tool=cast(CanUseTool, forgetful)))


@pytest.mark.feature("ASDK-066")
@pytest.mark.parametrize(("seconds", "asks"), [(5, 1), (15, 2)])
async def test_a_decision_is_remembered_for_its_time(
    seconds: float, asks: int, autojump_clock: MockClock
) -> None:
    count = 0

    async def decide(request: PermissionRequest) -> PermissionDecision:
        nonlocal count
        count += 1
        return PermissionDecision("allow", remember=Remember("session", ttl=10))

    turns: list[Turn] = [
        call("echo", {"text": "a"}),
        [pause(seconds), call("echo", {"text": "a"})],
        "Done.",
    ]
    result = await run(attrs.evolve(with_policy(*turns), can_use_tool=decide))
    assert results(result) == ["said a"] * 2
    assert count == asks


async def test_grant_applies_to_one_session_only() -> None:
    options = with_policy(*USE, *USE)
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def answer() -> None:
            runtime.answer((await the_question(runtime)).id, "session")
            while not runtime.questions("other"):
                await trio.testing.wait_all_tasks_blocked()
            runtime.answer(runtime.questions()[0].id, "no")

        nursery.start_soon(answer)
        first = await runtime.run("Go.", options, session_id="s")
        second = await runtime.run("Go.", options, session_id="other")
    assert (first.tool_calls[0].is_error, second.tool_calls[0].is_error) == (False, True)


# --- nothing overrides a denial ---

DENY = PermissionPolicy(deny=["echo(text=bad*)"], mode="bypass")


async def into_bad(event: PreToolUseEvent) -> HookDecision:
    return HookDecision(modified_input={"text": "bad"})


async def wrap_into_bad(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
    return await call_next(attrs.evolve(one, input={"text": "bad"}))


async def wrap_into_another_tool(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
    return await call_next(attrs.evolve(one, name="other", input={"text": "bad"}))


@pytest.mark.parametrize(
    "hooks",
    [
        {"before_tool": into_bad},
        {"wrap_tool_call": wrap_into_bad},
        {"wrap_tool_call": wrap_into_another_tool},
    ],
    ids=["a hook", "who wraps", "who wraps, with another name"],
)
async def test_rewrite_cannot_bypass_deny_rule(hooks: dict[str, object]) -> None:
    result = await run(attrs.evolve(with_policy(policy=DENY), hooks=hooks))
    assert ran == []
    assert "not permitted" in results(result)[0]


async def test_approved_rewrite_cannot_bypass_checks() -> None:
    policy = PermissionPolicy(ask=["echo"], deny=["echo(text=bad*)"])

    async def no_worse(event: PreToolUseEvent) -> HookDecision | None:
        worse = event.tool_input["text"] == "worse"
        return HookDecision(continue_=False, reason="worse") if worse else None

    async def approved(**arguments: JsonValue) -> str:
        async def decide(request: PermissionRequest) -> PermissionDecision:
            return PermissionDecision("allow", input=arguments)

        options = attrs.evolve(
            with_policy(policy=policy), can_use_tool=decide, hooks={"before_tool": no_worse}
        )
        return results(await run(options))[0]

    assert "not permitted" in await approved(text="bad")
    assert await approved(text="worse") == "the call was refused: worse"
    assert "are not valid" in await approved(txt=1)
    assert ran == []


@pytest.mark.parametrize("name", ["Echo", "echo ", " echo", "ECHO", "ech\u043e"])
async def test_similar_tool_name_is_unknown(name: str) -> None:
    turns: list[Turn] = [call(name, {"text": "bad"}), "Done."]
    result = await run(with_policy(*turns, policy=DENY))
    assert ran == []
    assert all(one.is_error for one in result.tool_calls)


async def test_second_call_is_judged_separately() -> None:
    turn = interleave(call("echo", {"text": "good"}), call("echo", {"text": "bad"}))
    result = await run(with_policy([turn], "Done.", policy=DENY))
    assert ran == ["good"]
    assert [one.is_error for one in result.tool_calls] == [False, True]


async def test_nested_run_cannot_bypass_policy() -> None:
    @tool
    async def delegate() -> str:
        """Run another agent."""
        free = agent(call("echo", {"text": "bad"}), "Done.")
        result = await runtime.run("Go.", free, session_id="child")
        return results(result)[0]

    outer = attrs.evolve(
        with_policy(call("delegate", {}), "Done.", policy=DENY), tools=[delegate, echo]
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", outer, session_id="s")
    assert ran == []
    assert "not permitted" in results(result)[0]


# --- the model asks ---


@pytest.mark.feature("OAGS-089")
async def test_a_model_may_ask_the_user_itself() -> None:
    turns: list[Turn] = [
        call("AskUserQuestion", {"question": "Which one?", "choices": ["a", "b"]}),
        "Done.",
    ]
    options = attrs.evolve(agent(*turns), tools=[ask_user_question])
    shown: list[object] = []
    async with open_runtime() as runtime, runtime.stream("Go.", options) as events:
        async for event in events:
            if isinstance(event, UserQuestion):
                shown.append((event.prompt, event.choices, event.tool_use_id))
                runtime.answer(event.question_id, "b")
    assert events.result is not None
    (done,) = events.result.tool_calls
    assert shown == [("Which one?", ("a", "b"), done.id)]
    assert (done.content, done.is_error) == ("b", False)


async def test_ask_tool_needs_no_permission() -> None:
    turns: list[Turn] = [call("AskUserQuestion", {"question": "Which one?"}), "Done."]
    plain = attrs.evolve(agent(*turns), tools=[ask_user_question])
    options = attrs.evolve(plain, permissions="prompt", can_use_tool=says_no)
    assert results(await asked_and_answered(options, "This one.")) == ["This one."]
    denied = attrs.evolve(agent(*turns), tools=[ask_user_question], permissions="deny")
    assert "not permitted" in results(await run(denied))[0]


async def test_unanswered_model_question_is_reported(autojump_clock: MockClock) -> None:
    turns: list[Turn] = [call("AskUserQuestion", {"question": "Anybody?"}), "Done."]
    options = attrs.evolve(agent(*turns), tools=[ask_user_question])
    assert results(await run(options)) == ["the question was not answered in time"]


async def test_outside_runtime_there_is_no_approver() -> None:
    with pytest.raises(LookupError, match="only a runtime can ask the user"):
        await ask_user_question.execute({"question": "Anybody?"})


async def test_allowlist_may_name_hook_tools() -> None:
    @tool
    async def other() -> str:
        """Another."""
        return "other"

    async def plan(event: object, ctx: HookContext) -> None:
        ctx.register_tool(other)

    options = agent([call("other", {})], "Done.", hooks={"before_agent": plan})
    async with (
        open_runtime() as runtime,
        runtime.stream("Go.", options, tool_whitelist=["other", "no_such"]) as events,
    ):
        notifications = [event async for event in events if isinstance(event, Notification)]
    assert [event.data for event in notifications] == [{"tool": "no_such"}]
    assert results(events.result) == ["other"]

"""Hooks at their places in a run: what they see, what they change, and how they end it."""

import math

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import AssistantDelta, Event, HookEvent, ToolResult
from agent_actors.domain.model import ModelFinished, ModelRequest
from agent_actors.domain.run import RunResult
from agent_actors.errors import AgentError, ConfigError, HookError, ProviderConnectError
from agent_actors.hooks import (
    AfterAgentEvent,
    AfterModelEvent,
    BeforeAgentEvent,
    BeforeModelEvent,
    Hook,
    HookContext,
    HookDecision,
    HookMatcher,
    Hooks,
    ModelCall,
    PhaseEvent,
    PostToolUseEvent,
    PreToolUseEvent,
    SessionEndEvent,
    SessionStartEvent,
    StopEvent,
    SubagentStartEvent,
    SubagentStopEvent,
    ToolCall,
    UserPromptSubmitEvent,
)
from agent_actors.testing import ScriptedModel, Turn, call, fail, interleave, pause, say
from agent_actors.tools.output import ToolOutput
from tests.runtime.joinkit import check_history, check_quiet

ran: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


@tool
async def echo(text: str) -> str:
    """Say it again."""
    ran.append(text)
    return f"said {text}"


def agent(*turns: Turn, hooks: Hooks = (), max_retries: int = 0) -> AgentOptions:
    model = ScriptedModel(turns)
    return AgentOptions(
        model="m", provider=model, tools=[echo], hooks=hooks, max_retries=max_retries
    )


def asked(options: AgentOptions) -> list[ModelRequest]:
    assert isinstance(options.provider, ScriptedModel)
    return options.provider.requests


async def run(options: AgentOptions, *, prompt: str = "Go.") -> RunResult:
    async with open_runtime() as runtime:
        result = await runtime.run(prompt, options, session_id="s")
        check_history(result.messages)
        check_quiet(runtime)
        return result


def results(result: RunResult) -> list[str]:
    return [str(call.content) for call in result.tool_calls]


def actions(result: RunResult) -> list[tuple[str, str, str]]:
    return [(event.hook, event.phase, event.action) for event in result.hook_events]


USE = [call("echo", {"text": "a"}), "Done."]


class Recorder(Hook):
    """Writes down every phase that it takes part in: all of them."""

    name = "recorder"

    def __init__(self) -> None:
        self.phases: list[str] = []

    def note(self, event: PhaseEvent) -> None:
        self.phases.append(event.phase.value)
        assert event.session_id == "s"

    async def session_start(self, event: SessionStartEvent, ctx: HookContext) -> None:
        self.note(event)

    async def user_prompt_submit(self, event: UserPromptSubmitEvent, ctx: HookContext) -> None:
        self.note(event)

    async def before_agent(self, event: BeforeAgentEvent, ctx: HookContext) -> None:
        self.note(event)

    async def modify_request(self, request: ModelRequest, ctx: HookContext) -> None:
        self.phases.append("modify_request")

    async def before_model(self, event: BeforeModelEvent, ctx: HookContext) -> None:
        self.note(event)

    async def wrap_model_call(
        self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
    ) -> ModelFinished:
        self.phases.append("wrap_model_call")
        return await call_next(request)

    async def after_model(self, event: AfterModelEvent, ctx: HookContext) -> None:
        self.note(event)

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        self.note(event)

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        self.phases.append("wrap_tool_call")
        return await call_next(call)

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> None:
        self.note(event)

    async def on_stop(self, event: StopEvent, ctx: HookContext) -> None:
        self.note(event)

    async def after_agent(self, event: AfterAgentEvent, ctx: HookContext) -> None:
        self.note(event)

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> None:
        self.note(event)


MODEL = ["modify_request", "before_model", "wrap_model_call", "after_model"]


@pytest.mark.feature(
    "ASDK-001", "OAGS-015", "OAGS-018", "WICK-036", "WICK-037", "WICK-039", "WICK-040"
)
async def test_every_phase_has_its_place_in_a_run() -> None:
    recorder = Recorder()
    result = await run(agent(*USE, hooks=recorder))
    assert recorder.phases == [
        "session_start",
        "user_prompt_submit",
        "before_agent",
        *MODEL,
        "before_tool",
        "wrap_tool_call",
        "after_tool",
        *MODEL,
        "on_stop",
        "after_agent",
        "session_end",
    ]
    assert result.hook_events == (), "who only looks on leaves no trace"
    assert result.text == "Done."


async def test_a_session_starts_and_ends_once_however_many_runs_it_has() -> None:
    recorder = Recorder()
    options = agent("One.", "Two.", hooks=recorder)
    async with open_runtime() as runtime:
        for _ in range(2):
            await runtime.run("Go.", options, session_id="s")
        assert recorder.phases.count("session_start") == 1
        assert "session_end" not in recorder.phases
    assert recorder.phases.count("session_end") == 1


async def test_a_session_that_is_evicted_ends_and_starts_anew(autojump_clock: MockClock) -> None:
    edges: list[str] = []

    async def start(event: SessionStartEvent) -> None:
        edges.append(event.source)

    async def end(event: SessionEndEvent) -> None:
        edges.append(event.reason)

    options = agent("One.", "Two.", hooks={"session_start": [start], "session_end": [end]})
    async with open_runtime(session_ttl=10) as runtime:
        await runtime.run("Go.", options, session_id="s")
        await trio.sleep(1000)
        assert edges == ["new", "evicted"]
        await runtime.run("Go.", options, session_id="s")
    assert edges == ["new", "evicted", "new", "closed"]


async def test_a_hook_that_hangs_at_the_end_of_a_session_holds_up_nobody_for_long(
    autojump_clock: MockClock,
) -> None:
    async def hang(event: SessionEndEvent) -> None:
        await trio.sleep_forever()

    started = trio.current_time()
    await run(agent("Done.", hooks={"session_end": hang}))
    assert trio.current_time() - started <= 10


# --- prompts ---


@pytest.mark.feature("OAS-099", "OAS-104")
async def test_a_rewritten_prompt_is_what_is_sent_and_stored() -> None:
    async def polite(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision(modified_prompt=f"{event.prompt} Please.")

    options = agent("Done.", hooks={"user_prompt_submit": [polite, polite]})
    result = await run(options)
    assert result.messages[0].content == "Go. Please. Please."
    assert asked(options)[0].messages.last_content() == "Go. Please. Please."
    assert actions(result) == [("polite", "user_prompt_submit", "replace")] * 2


@pytest.mark.feature("ASDK-073", "ASDK-075")
async def test_a_refused_prompt_ends_the_run_and_is_not_kept() -> None:
    async def refuse(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="not today")

    recorder = Recorder()
    options = agent("Done.", hooks=[{"user_prompt_submit": refuse}, recorder])
    result = await run(options)
    assert result.stop_reason == "blocked:user_prompt_submit"
    assert (len(result.messages), len(asked(options))) == (0, 0)
    (event,) = result.hook_events
    assert (event.hook, event.action, event.reason) == ("refuse", "deny", "not today")
    assert recorder.phases == ["session_start", "session_end"]


# --- the model ---


@pytest.mark.feature("OAGS-019")
async def test_a_refused_model_call_ends_the_run() -> None:
    async def refuse(event: BeforeModelEvent) -> HookDecision | None:
        return HookDecision(continue_=False, reason="enough") if event.iteration == 2 else None

    result = await run(agent(*USE, hooks={"before_model_call": refuse}))
    assert result.stop_reason == "blocked:before_model"
    assert ran == ["a"]


@pytest.mark.feature("OAGS-020", "OAGS-021", "WICK-038")
@pytest.mark.parametrize("allowed", [False, True])
async def test_messages_are_rewritten_for_one_request_if_that_is_allowed(allowed: bool) -> None:
    async def rewrite(event: BeforeModelEvent) -> HookDecision:
        return HookDecision(modified_messages=[{"role": "user", "content": "Something else."}])

    plain = agent("Done.", hooks={"before_model": rewrite})
    options = attrs.evolve(plain, allow_message_rewrite=allowed)
    result = await run(options)
    sent = "Something else." if allowed else "Go."
    assert asked(options)[0].messages.last_content() == sent
    assert result.messages[0].content == "Go.", "the log is as it was"
    action = "replace" if allowed else "ignored_override_messages"
    assert actions(result) == [("rewrite", "before_model", action)]


async def test_rewritten_messages_that_are_no_conversation_are_the_hooks_fault() -> None:
    async def rewrite(event: BeforeModelEvent) -> HookDecision:
        return HookDecision(modified_messages=[{"role": "owl", "content": "Hoo."}])

    options = attrs.evolve(
        agent("Done.", hooks={"before_model": rewrite}), allow_message_rewrite=True
    )
    with pytest.raises(HookError, match="modified_messages are no conversation"):
        await run(options)


async def test_a_request_is_handed_on_and_wrapped_from_the_outside_in() -> None:
    order: list[str] = []

    class Layer(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        async def modify_request(self, request: ModelRequest, ctx: HookContext) -> ModelRequest:
            return attrs.evolve(request, system_prompt=request.system_prompt + self.name)

        async def wrap_model_call(
            self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
        ) -> ModelFinished:
            order.append(f"{self.name} in")
            answer = await call_next(request)
            order.append(f"{self.name} out")
            return answer

    options = agent("Done.", hooks=[Layer("a"), Layer("b")])
    result = await run(options)
    assert asked(options)[0].system_prompt == "ab"
    assert order == ["a in", "b in", "b out", "a out"]
    assert [action[1:] for action in actions(result)] == [("modify_request", "replace")] * 2


async def test_who_wraps_may_answer_in_the_models_place_or_ask_again() -> None:
    async def cached(request: ModelRequest, call_next: ModelCall) -> ModelFinished:
        with pytest.raises(ProviderConnectError):
            await call_next(request)
        return await call_next(request)

    broken = fail(ProviderConnectError("it broke", endpoint="e"))
    assert (await run(agent(broken, "Done.", hooks={"wrap_model_call": cached}))).text == "Done."


async def test_what_the_model_failed_with_passes_through_who_wraps() -> None:
    broken = fail(ProviderConnectError("it broke", endpoint="e"))
    with pytest.raises(ProviderConnectError):
        await run(agent(broken, hooks=Recorder()))


@pytest.mark.feature("OAGS-016")
@pytest.mark.parametrize("withheld", [False, True])
async def test_an_answer_may_be_changed_before_it_is_kept(withheld: bool) -> None:
    async def redact(event: AfterModelEvent) -> HookDecision:
        return HookDecision(modified_output=event.text.replace("secret", "***"))

    plain = agent([say("A ", "secret", ".")], hooks={"after_model": redact})
    options = attrs.evolve(plain, withhold_deltas=withheld)
    async with open_runtime() as runtime, runtime.stream("Go.", options) as events:
        seen = [event async for event in events]
        result = events.result
    assert result is not None
    assert result.text == result.messages.last_content() == "A ***."
    shown = "".join(event.text for event in seen if isinstance(event, AssistantDelta))
    assert shown == ("A ***." if withheld else "A secret.")


async def test_an_answer_that_is_refused_is_not_kept_and_was_paid_for() -> None:
    async def refuse(event: AfterModelEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="no")

    result = await run(agent("Done.", hooks={"after_model": refuse}))
    assert result.stop_reason == "blocked:after_model"
    assert [message.role for message in result.messages] == ["user"]
    assert result.usage.output_tokens > 0


@pytest.mark.feature("OAGS-017")
async def test_the_last_word_is_told_when_the_model_has_said_it() -> None:
    told: list[tuple[str, str]] = []

    async def stop(event: StopEvent) -> None:
        told.append((event.text, event.stop_reason))

    await run(agent(*USE, hooks={"stop": stop}))
    assert told == [("Done.", "completed")]


# --- tools ---


@pytest.mark.feature("OAS-094", "OAS-095", "OAS-097", "OAS-098", "OAS-100")
async def test_a_refused_call_is_told_to_the_model_with_the_reason() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        assert (event.tool_name, event.tool_input) == ("echo", {"text": "a"})
        assert [message["role"] for message in event.history][:1] == ["user"]
        return HookDecision(continue_=False, reason="not a")

    result = await run(agent(*USE, hooks={"pre_tool_use": [refuse]}))
    assert result.text == "Done."
    assert results(result) == ["the call was refused: not a"]
    assert ran == []
    assert actions(result) == [("refuse", "before_tool", "deny")]


@pytest.mark.feature("OAS-101")
async def test_a_rewrite_goes_on_to_the_later_hooks_and_a_refusal_ends_the_chain() -> None:
    seen: list[object] = []

    def writes(text: str) -> object:
        async def write(event: PreToolUseEvent) -> HookDecision | None:
            seen.append((text, event.tool_input["text"], event.recheck))
            return None if event.recheck else HookDecision(modified_input={"text": text})

        return write

    result = await run(agent(*USE, hooks={"pre_tool_use": [writes("b"), writes("c")]}))  # type: ignore[list-item]
    assert ran == ["c"]
    assert seen == [("b", "a", False), ("c", "b", False), ("b", "c", True), ("c", "c", True)]
    assert result.tool_calls[0].input == {"text": "c"}


@pytest.mark.parametrize("order", [1, -1], ids=["guard first", "guard last"])
async def test_a_rewrite_does_not_slip_past_who_would_refuse_it(order: int) -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision | None:
        bad = event.tool_input["text"] == "bad"
        return HookDecision(continue_=False, reason="bad") if bad else None

    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"text": "bad"})

    hooks = [guard, rewrite][::order]
    result = await run(agent(*USE, hooks={"pre_tool_use": hooks}))
    assert ran == []
    assert results(result) == ["the call was refused: bad"]


async def test_what_a_hook_writes_in_place_changes_nothing() -> None:
    async def scribble(event: PreToolUseEvent) -> None:
        event.tool_input["text"] = "bad"
        event.history.clear()

    await run(agent(*USE, hooks={"pre_tool_use": [scribble, scribble]}))
    assert ran == ["a"]


async def test_arguments_that_do_not_fit_are_the_hooks_fault() -> None:
    async def rewrite(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"txt": 1})

    with pytest.raises(HookError, match="hook rewrite in before_tool: wrote arguments that do not"):
        await run(agent(*USE, hooks={"pre_tool_use": rewrite}))


@pytest.mark.feature("OAS-105")
async def test_a_result_may_be_replaced_and_the_call_stays_done() -> None:
    async def shout(event: PostToolUseEvent) -> HookDecision:
        assert event.tool_result == "said a"
        return HookDecision(modified_output=str(event.tool_result).upper(), continue_=True)

    result = await run(agent(*USE, hooks={"post_tool_use": [shout]}))
    assert results(result) == ["SAID A"]
    assert ran == ["a"]


async def test_only_the_tools_that_match_are_looked_at() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False)

    @tool
    async def other() -> str:
        """Another."""
        return "other"

    turn = interleave(call("echo", {"text": "a"}), call("other", {}))
    plain = agent([turn], "Done.", hooks={"pre_tool_use": [HookMatcher("ec*", [refuse])]})
    result = await run(attrs.evolve(plain, tools=[echo, other]))
    assert results(result) == ["the call was refused: no reason was given", "other"]
    assert result.hook_events[0].matcher == "ec*"


async def test_a_call_that_cannot_be_carried_out_meets_no_hook() -> None:
    recorder = Recorder()
    turns = [[interleave(call("nobody", {}), call("echo", {"wrong": 1}))], "Done."]
    result = await run(agent(*turns, hooks=recorder))
    assert "before_tool" not in recorder.phases
    assert all(one.is_error for one in result.tool_calls)


@pytest.mark.parametrize("phase", ["before_tool", "after_tool"])
async def test_a_hook_may_end_the_run_from_a_call(phase: str) -> None:
    async def stop(event: PhaseEvent) -> HookDecision:
        return HookDecision(stop=True, reason="enough")

    result = await run(agent(*USE, hooks={phase: stop}))
    assert result.stop_reason == f"blocked:{phase}"
    assert ran == ([] if phase == "before_tool" else ["a"])
    assert actions(result) == [("stop", phase, "stop")]


async def test_who_wraps_a_call_may_change_what_goes_in_and_what_comes_out() -> None:
    async def wrap(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        output = await call_next(attrs.evolve(one, input={"text": "b"}))
        return attrs.evolve(output, content=f"<{output.content}>")

    async def wrong(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        return await call_next(attrs.evolve(one, input={"txt": "b"}))

    result = await run(agent(*USE, hooks={"wrap_tool_call": wrap}))
    assert (results(result), ran) == (["<said b>"], ["b"])
    result = await run(agent(*USE, hooks={"wrap_tool_call": wrong}))
    assert result.tool_calls[0].is_error


async def test_a_slow_hook_of_one_call_does_not_hold_up_the_others(
    autojump_clock: MockClock,
) -> None:
    async def slow(event: PreToolUseEvent) -> None:
        await trio.sleep(20 if event.tool_input["text"] == "a" else 0)

    turn = interleave(*(call("echo", {"text": text}) for text in "abc"))
    await run(agent([turn], "Done.", hooks={"pre_tool_use": slow}))
    assert ran[-1] == "a"
    assert sorted(ran) == ["a", "b", "c"]


async def test_the_deadline_of_a_tool_does_not_run_while_hooks_decide(
    autojump_clock: MockClock,
) -> None:
    @tool(timeout=5)
    async def nap(seconds: float) -> str:
        """Sleep."""
        await trio.sleep(seconds)
        return "rested"

    async def slow(event: PhaseEvent) -> None:
        await trio.sleep(20)

    turn = interleave(call("nap", {"seconds": 4}), call("nap", {"seconds": 6}))
    plain = agent([turn], "Done.", hooks={"pre_tool_use": slow, "post_tool_use": slow})
    result = await run(attrs.evolve(plain, tools=[nap]))
    assert results(result) == ["rested", "tool 'nap' did not finish within 5 s"]


# --- runs ---


@pytest.mark.feature("ASDK-002", "ASDK-005", "WICK-023", "WICK-026")
async def test_hooks_of_a_run_share_its_state_and_register_tools_for_it_alone() -> None:
    @tool
    async def extra() -> str:
        """Only here."""
        return "extra"

    async def begin(event: BeforeAgentEvent, ctx: HookContext) -> None:
        assert ctx.state == {}
        ctx.state["seen"] = 0
        ctx.register_tool(extra)
        with pytest.raises(ConfigError, match="the name is taken in this run"):
            ctx.register_tool(echo)

    async def count(event: PreToolUseEvent, ctx: HookContext) -> None:
        assert ctx.state["seen"] == 0
        assert ctx.run.session_id == "s"
        with pytest.raises(ConfigError, match="in before_agent only"):
            ctx.register_tool(extra)

    hooks: Hooks = {"before_agent": begin, "pre_tool_use": count}
    options = agent(call("extra", {}), "Done.", call("extra", {}), "Done.", hooks=hooks)
    assert results(await run(options)) == ["extra"]
    assert [spec.name for spec in asked(options)[0].tools] == ["echo", "extra"]
    assert results(await run(options)) == ["extra"]
    assert list(options.tools_by_name) == ["echo"]


@pytest.mark.feature("ASDK-007")
@pytest.mark.parametrize("how", ["an answer", "an error", "a cancel", "a deadline", "blocked"])
async def test_whatever_ends_a_run_its_end_is_told_once(
    how: str, autojump_clock: MockClock
) -> None:
    told: list[str] = []

    async def after(event: AfterAgentEvent) -> None:
        await trio.sleep(1)  # no cancel interrupts it
        told.append(event.stop_reason if event.error is None else type(event.error).__name__)

    async def refuse(event: BeforeModelEvent) -> HookDecision:
        return HookDecision(continue_=how != "blocked")

    turns: dict[str, Turn] = {"an error": fail(ProviderConnectError("no", endpoint="e"))}
    slow = [pause(50), say("Done.")] if how in ("a cancel", "a deadline") else "Done."
    options = agent(turns.get(how, slow), hooks={"after_agent": after, "before_model": refuse})
    options = attrs.evolve(options, run_timeout=9 if how == "a deadline" else math.inf)
    async with open_runtime() as runtime:
        with trio.move_on_after(20):
            try:
                await runtime.run("Go.", options, session_id="s")
            except AgentError:
                assert how in ("an error", "a deadline")
        check_quiet(runtime)
    assert told == [
        {
            "an answer": "completed",
            "an error": "ProviderConnectError",
            "a cancel": "interrupted",
            "a deadline": "RunDeadlineExceeded",
            "blocked": "blocked:before_model",
        }[how]
    ]


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
async def test_a_hook_that_fails_at_the_end_is_told_and_hides_no_failure(fails: bool) -> None:
    async def after(event: AfterAgentEvent) -> None:
        raise ValueError("odd")

    turn: Turn = fail(ProviderConnectError("no", endpoint="e")) if fails else "Done."
    with pytest.raises(ProviderConnectError if fails else HookError) as caught:
        await run(agent(turn, hooks={"after_agent": after}))
    told = "hook after in after_agent: raised ValueError: odd"
    assert caught.value.__notes__ == [f"and then: {told}"] if fails else str(caught.value) == told


async def test_hooks_that_hang_at_the_end_of_a_run_are_left_behind(
    autojump_clock: MockClock,
) -> None:
    async def hang(event: AfterAgentEvent) -> None:
        await trio.sleep_forever()

    with pytest.raises(HookError, match="the hooks did not end within 10 s"):
        await run(agent("Done.", hooks={"after_agent": hang}))


# --- what goes wrong ---


async def broken(event: object) -> None:
    raise ValueError("odd")


async def hanging(event: object) -> None:
    await trio.sleep_forever()


async def talking(event: object) -> str:
    return "yes"


@pytest.mark.feature("OAS-096", "ASDK-004", "ASDK-006")
@pytest.mark.parametrize(
    ("hook", "says"),
    [
        (broken, "raised ValueError: odd"),
        (hanging, "did not decide within 60 s"),
        (talking, "returned str; expected a HookDecision, or None to proceed"),
    ],
)
@pytest.mark.parametrize(
    "phase", ["user_prompt_submit", "before_model", "after_model", "before_tool", "after_tool"]
)
async def test_a_hook_that_fails_ends_its_run_and_names_itself(
    phase: str, hook: object, says: str, autojump_clock: MockClock
) -> None:
    options = agent(*USE, hooks={phase: hook})  # type: ignore[dict-item]
    async with open_runtime() as runtime:
        with pytest.raises(HookError) as caught:
            await runtime.run("Go.", options, session_id="s")
        check_quiet(runtime)
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        assert (await runtime.run("Again.", agent("Fine."), session_id="s")).text == "Fine."
    name = getattr(hook, "__name__", "")
    assert str(caught.value) == f"hook {name} in {phase}: {says}"
    assert (caught.value.hook, caught.value.phase) == (name, phase)


async def test_what_wraps_and_returns_something_else_is_told() -> None:
    async def wrap(request: object, call_next: object) -> int:
        return 1

    with pytest.raises(HookError, match="returned int; expected a ModelFinished"):
        await run(agent("Done.", hooks={"wrap_model_call": wrap}))
    with pytest.raises(HookError, match="returned int; expected a ToolOutput"):
        await run(agent(*USE, hooks={"wrap_tool_call": wrap}))
    with pytest.raises(HookError, match="returned int; expected a ModelRequest"):
        await run(agent("Done.", hooks={"modify_request": lambda request: 1}))


async def test_what_wraps_may_have_a_deadline_of_its_own(autojump_clock: MockClock) -> None:
    class Impatient(Hook):
        deadline: float | None = 5

        async def wrap_model_call(
            self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
        ) -> ModelFinished:
            return await call_next(request)

    with pytest.raises(HookError, match="hook Impatient in wrap_model_call: did not finish within"):
        await run(agent([pause(50), say("Done.")], hooks=Impatient()))


async def test_the_first_hook_that_fails_is_the_one_that_is_told() -> None:
    class Outer(Hook):
        async def wrap_tool_call(
            self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
        ) -> ToolOutput:
            return await call_next(call)

    async def inner(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        raise ValueError("odd")

    with pytest.raises(HookError, match="hook inner in wrap_tool_call: raised ValueError: odd"):
        await run(agent(*USE, hooks=[Outer(), {"wrap_tool_call": inner}]))


# --- runs within runs ---


async def test_a_run_is_told_of_the_runs_that_its_tools_start_and_may_refuse_them() -> None:
    told: list[PhaseEvent] = []
    refuse = False

    async def start(event: SubagentStartEvent) -> HookDecision | None:
        told.append(event)
        return HookDecision(continue_=False, reason="no helpers") if refuse else None

    async def stop(event: SubagentStopEvent) -> None:
        told.append(event)

    @tool
    async def delegate() -> str:
        """Ask somebody else."""
        helper = AgentOptions(model="m", provider=ScriptedModel(["Helped."]), agent_name="helper")
        result = await runtime.run("Help.", helper, session_id="child")
        return f"{result.stop_reason}: {result.text}"

    async def parent(runtime: Runtime) -> RunResult:
        hooks: Hooks = {"subagent_start": start, "subagent_stop": stop}
        plain = agent(call("delegate", {}), "Done.", hooks=hooks)
        return await runtime.run("Go.", attrs.evolve(plain, tools=[delegate]), session_id="s")

    async with open_runtime() as runtime:
        assert results(await parent(runtime)) == ["completed: Helped."]
        first, last = told
        assert isinstance(first, SubagentStartEvent)
        assert isinstance(last, SubagentStopEvent)
        assert (first.agent_name, first.prompt, first.subagent_session_id, first.session_id) == (
            "helper",
            "Help.",
            "child",
            "s",
        )
        assert (last.stop_reason, last.text, last.tool_use_id) == (
            "completed",
            "Helped.",
            first.tool_use_id,
        )
        refuse = True
        assert results(await parent(runtime)) == ["blocked:subagent_start: "]


async def test_hook_events_are_recorded_in_their_places() -> None:
    async def refuse(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="no")

    seen: list[Event] = []
    async with open_runtime() as runtime:
        async with runtime.stream("Go.", agent(*USE, hooks={"before_tool": refuse})) as events:
            seen += [event async for event in events]
    kinds = [type(event) for event in seen if isinstance(event, HookEvent | ToolResult)]
    assert kinds == [HookEvent, ToolResult]
    assert all(event.seq is not None for event in seen if isinstance(event, HookEvent))

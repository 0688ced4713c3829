"""The phases of sessions, prompts and the model, and when their hooks run."""

from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import open_runtime
from agent_actors.domain.blocks import ThinkingBlock
from agent_actors.domain.events import AssistantDelta
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.errors import HookError, ProviderConnectError
from agent_actors.hooks import (
    AfterModelEvent,
    BeforeModelEvent,
    Hook,
    HookContext,
    HookDecision,
    ModelCall,
    SessionEndEvent,
    SessionStartEvent,
    StopEvent,
    UserPromptSubmitEvent,
)
from agent_actors.runs.hooks.session_hooks import SessionHooks
from agent_actors.testing import Turn, call, fail, say, think
from tests.runs.hooks.helpers import USE, Recorder, actions, agent, asked, ran, run


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


MODEL = ["modify_request", "before_model", "wrap_model_call", "after_model"]


@pytest.mark.feature(
    "ASDK-001", "OAGS-015", "OAGS-018", "WICK-036", "WICK-037", "WICK-039", "WICK-040"
)
async def test_every_phase_fires_in_a_run() -> None:
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
    assert result.hook_events == (), "a hook that decides nothing leaves no record"
    assert result.text == "Done."


async def test_session_starts_and_ends_once() -> None:
    recorder = Recorder()
    options = agent("One.", "Two.", hooks=recorder)
    async with open_runtime() as runtime:
        for _ in range(2):
            await runtime.run("Go.", options, session_id="s")
        assert recorder.phases.count("session_start") == 1
        assert "session_end" not in recorder.phases
    assert recorder.phases.count("session_end") == 1


async def test_evicted_session_starts_again(autojump_clock: MockClock) -> None:
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


async def test_hanging_session_end_is_bounded(
    autojump_clock: MockClock,
) -> None:
    async def hang(event: SessionEndEvent) -> None:
        await trio.sleep_forever()

    started = trio.current_time()
    await run(agent("Done.", hooks={"session_end": hang}))
    assert trio.current_time() - started <= 10


@pytest.mark.parametrize("reason", ["evicted", "deleted"])
async def test_leaving_session_hooks_finish_before_close(
    reason: str, autojump_clock: MockClock
) -> None:
    observed: list[str] = []
    begun = trio.Event()

    async def end(event: SessionEndEvent) -> None:
        begun.set()
        await trio.sleep(3)
        observed.append(event.reason)

    async with open_runtime(session_ttl=10) as runtime:
        await runtime.run("Go.", agent("Done.", hooks={"session_end": end}), session_id="s")
        if reason == "deleted":
            await runtime.sessions.delete("s")
        await begun.wait()
        left = trio.current_time()
    assert observed == [reason]
    assert trio.current_time() - left == pytest.approx(3)


async def test_leaving_hooks_share_the_close_limit(
    autojump_clock: MockClock,
) -> None:
    begun = trio.Event()

    async def hang(event: SessionEndEvent) -> None:
        begun.set()
        await trio.sleep_forever()

    async with open_runtime(session_ttl=10) as runtime:
        await runtime.run("Go.", agent("Done.", hooks={"session_end": hang}), session_id="s")
        await begun.wait()
        await trio.sleep(4)
        left = trio.current_time()
    assert trio.current_time() - left == pytest.approx(6)  # of the ten seconds for all hooks


async def test_late_leaving_session_is_not_awaited() -> None:
    async def end(event: SessionEndEvent) -> None:
        raise AssertionError

    hooks = SessionHooks(lambda: 0.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(hooks.owner.serve)
        hooks.owner.close()
    hooks._open["s"] = (agent(hooks={"session_end": end}).hook_chain, 1.0)
    hooks.end("s", "evicted")
    await hooks.end_all()


# --- prompts ---


@pytest.mark.feature("OAS-094", "OAS-099", "OAS-104")
async def test_rewritten_prompt_is_sent_and_stored() -> None:
    async def polite(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision(modified_prompt=f"{event.prompt} Please.")

    options = agent("Done.", hooks={"user_prompt_submit": [polite, polite]})
    result = await run(options)
    assert result.messages[0].content == "Go. Please. Please."
    assert asked(options)[0].messages.last_content() == "Go. Please. Please."
    assert actions(result) == [("polite", "user_prompt_submit", "replace")] * 2


@pytest.mark.feature("ASDK-073", "ASDK-075")
async def test_refused_prompt_ends_run() -> None:
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
async def test_message_rewrite_needs_permission(allowed: bool) -> None:
    async def rewrite(event: BeforeModelEvent) -> HookDecision:
        return HookDecision(modified_messages=[{"role": "user", "content": "Something else."}])

    plain = agent("Done.", hooks={"before_model": rewrite})
    options = attrs.evolve(plain, allow_message_rewrite=allowed)
    result = await run(options)
    sent = "Something else." if allowed else "Go."
    assert asked(options)[0].messages.last_content() == sent
    assert result.messages[0].content == "Go.", "the log is unchanged"
    action = "replace" if allowed else "ignored_override_messages"
    assert actions(result) == [("rewrite", "before_model", action)]


async def test_in_place_rewrite_keeps_other_signatures() -> None:
    async def rewrite(event: BeforeModelEvent) -> HookDecision:
        written = [dict(message) for message in event.messages]
        cast("dict[str, object]", event.messages[0])["content"] = "Something else."
        return HookDecision(modified_messages=event.messages if event.iteration == 2 else written)

    use: Turn = [think("Hm.", signature="seal"), call("echo", {"text": "a"})]
    plain = agent(use, "Done.", hooks={"before_model": rewrite})
    options = attrs.evolve(plain, allow_message_rewrite=True)
    await run(options)
    first, second = (request.messages for request in asked(options))
    assert first[0].content == "Go."
    assert second[0].content == "Something else."
    assert second[1].blocks[0] == ThinkingBlock("Hm.", "seal")


async def test_invalid_rewritten_messages_are_hook_error() -> None:
    async def rewrite(event: BeforeModelEvent) -> HookDecision:
        return HookDecision(modified_messages=[{"role": "owl", "content": "Hoo."}])

    options = attrs.evolve(
        agent("Done.", hooks={"before_model": rewrite}), allow_message_rewrite=True
    )
    with pytest.raises(
        HookError, match=r"hook rewrite in .* modified_messages is not a valid conversation"
    ):
        await run(options)


@pytest.mark.feature("WICK-038")
@pytest.mark.parametrize("phase", ["modify_request", "wrap_model_call"])
async def test_request_hooks_rewrite_without_permission(phase: str) -> None:
    other = Messages().user("Something else.")

    async def modify(request: ModelRequest) -> ModelRequest:
        return attrs.evolve(request, messages=other)

    async def wrap(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        return await call_next(attrs.evolve(request, messages=other))

    hook = modify if phase == "modify_request" else wrap
    options = agent("Done.", hooks={phase: hook})
    assert not options.allow_message_rewrite
    result = await run(options)
    assert asked(options)[0].messages == other
    assert result.messages[0].content == "Go."


@pytest.mark.feature("WICK-042")
async def test_wrappers_nest_from_outside_in() -> None:
    order: list[str] = []

    class Layer(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        async def modify_request(self, request: ModelRequest, ctx: HookContext) -> ModelRequest:
            return attrs.evolve(request, system_prompt=request.system_prompt + self.name)

        async def wrap_model_call(
            self, request: ModelRequest, call_next: ModelCall, ctx: HookContext
        ) -> ModelCompleted:
            order.append(f"{self.name} in")
            answer = await call_next(request)
            order.append(f"{self.name} out")
            return answer

    options = agent("Done.", hooks=[Layer("a"), Layer("b")])
    result = await run(options)
    assert asked(options)[0].system_prompt == "ab"
    assert order == ["a in", "b in", "b out", "a out"]
    assert [action[1:] for action in actions(result)] == [("modify_request", "replace")] * 2


async def test_wrapper_may_replace_or_repeat_call() -> None:
    async def cached(request: ModelRequest, call_next: ModelCall) -> ModelCompleted:
        with pytest.raises(ProviderConnectError):
            await call_next(request)
        return await call_next(request)

    broken = fail(ProviderConnectError("it broke", endpoint="e"))
    assert (await run(agent(broken, "Done.", hooks={"wrap_model_call": cached}))).text == "Done."


async def test_model_error_passes_through_wrappers() -> None:
    broken = fail(ProviderConnectError("it broke", endpoint="e"))
    with pytest.raises(ProviderConnectError):
        await run(agent(broken, hooks=Recorder()))


@pytest.mark.feature("OAGS-016")
@pytest.mark.parametrize("withheld", [False, True])
async def test_response_may_be_changed_before_storing(withheld: bool) -> None:
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


async def test_refused_response_is_paid_not_stored() -> None:
    async def refuse(event: AfterModelEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="no")

    result = await run(agent("Done.", hooks={"after_model": refuse}))
    assert result.stop_reason == "blocked:after_model"
    assert [message.role for message in result.messages] == ["user"]
    assert result.usage.output_tokens > 0


@pytest.mark.feature("OAGS-017")
async def test_on_stop_gets_last_text() -> None:
    observed: list[tuple[str, str]] = []

    async def stop(event: StopEvent) -> None:
        observed.append((event.text, event.stop_reason))

    await run(agent(*USE, hooks={"stop": stop}))
    assert observed == [("Done.", "completed")]

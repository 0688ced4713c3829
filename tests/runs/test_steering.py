"""Input to a running run is taken at a turn boundary or gets its own run, and never both."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, UsageLimits, open_runtime, tool
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import HookEvent, UserMessage
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import HookError, SessionBusy, SessionIdle, SessionStoreError
from agent_actors.hooks import HookDecision, UserPromptSubmitEvent
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, Turn, call, pause, say
from tests.runs.helpers import SlowStore, check_history, check_quiet, check_records
from tests.runtime.sessions.busy_helpers import Runs, an_agent, answers, asked, on_record


@asynccontextmanager
async def held(
    store: MemoryStore | None = None, options: AgentOptions | None = None
) -> AsyncGenerator[Runs]:
    """Yield a runtime, and check it at the end."""
    store = store or MemoryStore()
    async with open_runtime(store=store) as runtime:
        async with trio.open_nursery() as nursery:
            yield Runs(runtime, nursery, options or an_agent())
        check_quiet(runtime)
        assert not runtime._actors.services.inboxes
        check_records(await store.load("s"))
        history = runtime.history("s")
        if history is not None:
            check_history(history)


@pytest.mark.parametrize("store", [MemoryStore, SlowStore])
async def test_input_during_response_joins_same_run(
    store: type[MemoryStore], autojump_clock: MockClock
) -> None:
    made = store()
    async with held(made) as runs:
        await runs.start("one", wait=0.75)
        await runs.steer("two")
    assert list(runs.ends.items()) == [("two", "steered"), ("one", "completed")]
    one = runs.results["one"]
    said = [str(m.content) for m in one.messages]
    assert said == ["one", "You said one.", "two", "You said two."]
    assert (one.text, one.iterations) == ("You said two.", 2)
    assert runs.results["two"].text == ""
    assert on_record(tuple(await made.load("s"))) == ["one", "two", "completed"]
    spoken = [e for e in await made.load("s") if isinstance(e, UserMessage)]
    assert {e.run_id for e in spoken} == {one.run_id}


async def test_steering_returns_at_the_boundary(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        await runs.start("one", wait=0.5)
        result = await runs.runtime.steer("s", "two")
        assert trio.current_time() == pytest.approx(1)
        assert runs.runtime.is_busy("s")
    assert result.stop_reason == "steered"
    assert runs.results["one"].text == "You said two."


async def test_input_during_tools_waits_for_last(
    autojump_clock: MockClock,
) -> None:
    model = ScriptedModel(answers)
    async with held(options=an_agent(model)) as runs:
        await runs.start("naps", wait=0.5)
        await runs.steer("quick")
        await trio.sleep(2)
        assert not runs.ends, "one of the two runs has ended"
    assert list(runs.ends) == ["quick", "naps"]
    roles = [m.role for m in model.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "tool", "user"]


async def test_several_inputs_are_taken_in_order(autojump_clock: MockClock) -> None:
    async with held() as runs:
        await runs.start("one", wait=0.5)
        for prompt in ("two", "two", "three"):
            await runs.steer(prompt, wait=0.1)
    assert asked(runs.results["one"].messages) == ["one", "two", "two", "three"]
    assert runs.results["one"].iterations == 2


async def test_early_stop_keeps_input_queued(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        await runs.start("naps", wait=2)
        await runs.start("queued before")
        await runs.steer("steered")
        await runs.start("queued after")
        await runs.runtime.interrupt("s")
    assert list(runs.ends.items()) == [
        ("naps", "interrupted"),
        ("queued before", "completed"),
        ("steered", "completed"),
        ("queued after", "completed"),
    ]
    assert runs.results["steered"].text == "You said steered."


async def test_final_iteration_takes_no_input(autojump_clock: MockClock) -> None:
    async with held(options=an_agent(max_iterations=1)) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two")
    assert runs.ends == {"one": "max_iterations", "two": "completed"}
    assert asked(runs.results["two"].messages) == ["one", "two"]
    assert asked(runs.results["one"].messages) == ["one"]


async def test_failed_run_leaves_input_to_next(
    autojump_clock: MockClock,
) -> None:
    async with held(options=an_agent(run_timeout=2)) as runs:
        await runs.start("nap", wait=0.5)
        await runs.steer("two", an_agent())
    assert list(runs.errors) == ["nap"]
    assert runs.ends == {"two": "completed"}


async def test_idle_session_starts_ordinary_run(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        result = await runtime.steer("s", "hi", an_agent())
        assert (result.text, result.stop_reason) == ("You said hi.", "completed")
        with pytest.raises(SessionIdle, match="'s': no run holds the session"):
            await runtime.steer("s", "hi")


async def test_steer_policy_behaves_like_steering(autojump_clock: MockClock) -> None:
    async with open_runtime(on_busy="steer") as runtime, trio.open_nursery() as nursery:
        runs = Runs(runtime, nursery)
        await runs.start("one", "steer", wait=0.5)
        stream = runtime.stream("two", runs.options, session_id="s")
        async with stream as events:
            seen = [event.type async for event in events]
    assert seen == ["run.queued", "result"]
    assert stream.result.stop_reason == "steered"
    assert runs.results["one"].text == "You said two."


async def test_withdrawn_input_is_not_recorded(autojump_clock: MockClock) -> None:
    async with held() as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two", wait=0.1)
        runs.scopes["two"].cancel()
    assert runs.ends == {"one": "completed"}
    assert asked(runs.results["one"].messages) == ["one"]
    assert runs.scopes["two"].cancelled_caught


async def test_recording_input_ignores_caller_cancel(
    autojump_clock: MockClock,
) -> None:
    async with held(SlowStore()) as runs:
        await runs.start("one", wait=0)
        await runs.steer("two", wait=1.6)
        assert not runs.ends
        runs.scopes["two"].cancel()
    assert list(runs.ends.items()) == [("two", "steered"), ("one", "completed")]
    assert asked(runs.results["one"].messages) == ["one", "two"]


async def test_own_deadline_withdraws_input(autojump_clock: MockClock) -> None:
    async with held() as runs:
        await runs.start("naps", wait=0.5)
        await runs.steer("two", an_agent(run_timeout=1))
    assert list(runs.errors) == ["two"]
    assert asked(runs.results["naps"].messages) == ["naps"]


async def test_rollback_removes_taken_input(
    autojump_clock: MockClock,
) -> None:
    async with held() as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two", wait=1)
        await runs.start("instead", "rollback")
    assert runs.ends == {"two": "steered", "one": "rolled_back", "instead": "completed"}
    assert asked(runs.results["instead"].messages) == ["instead"]


async def test_exhausted_run_records_its_input(
    autojump_clock: MockClock,
) -> None:
    async with held(options=an_agent(limits=UsageLimits(requests=1))) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two")
    assert runs.ends == {"two": "steered", "one": "budget:requests"}
    assert asked(runs.results["one"].messages) == ["one", "two"]


@attrs.define(eq=False)
class FullStore(SlowStore):
    """A store that refuses batches with this prompt."""

    refuses: str = ""

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        said = [e.text for one in batch for e in one.events if isinstance(e, UserMessage)]
        if self.refuses in said:
            await trio.sleep(0.25)
            raise OSError("no space left on device")
        return await super().append(batch)


async def test_unrecorded_input_fails_once(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(store=FullStore(refuses="two")) as runtime:
        async with trio.open_nursery() as nursery:
            runs = Runs(runtime, nursery)
            await runs.start("one", wait=0.75)
            await runs.steer("two")
        check_quiet(runtime)
    assert not runs.ends
    assert isinstance(runs.errors["one"], SessionStoreError)
    assert isinstance(runs.errors["two"], SessionStoreError)
    assert "it is unknown whether it is in the history" in str(runs.errors["two"])
    assert runs.errors["two"].__cause__ is runs.errors["one"]


async def test_typed_output_is_checked_before_input(
    autojump_clock: MockClock,
) -> None:
    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        return [pause(1), say('{"number": 1}' if last.content == "one" else '{"number": 2}')]

    @attrs.frozen
    class Number:
        number: int

    options = AgentOptions(model="m", provider=ScriptedModel(script), output_type=Number)
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        runs = Runs(runtime, nursery)

        async def first() -> None:
            result = await runtime.run("one", options, session_id="s")
            assert result.output == Number(2)

        nursery.start_soon(first)
        await trio.sleep(0.5)
        await runs.steer("two")
    assert runs.ends == {"two": "steered"}


# Hooks of the steered run see every prompt.


async def test_hook_may_rewrite_steered_input(autojump_clock: MockClock) -> None:
    async def rewrite(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision(modified_prompt=event.prompt.upper())

    hooks = {"user_prompt_submit": rewrite}
    async with held(options=an_agent(hooks=hooks)) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two")
    assert runs.ends == {"two": "steered", "one": "completed"}
    assert asked(runs.results["one"].messages) == ["ONE", "TWO"]


async def test_hook_may_refuse_steered_input(
    autojump_clock: MockClock,
) -> None:
    async def refuse(event: UserPromptSubmitEvent) -> HookDecision | None:
        await trio.sleep(0.1)
        return HookDecision(continue_=False, reason="rude") if event.prompt == "two" else None

    store = MemoryStore()
    options = an_agent(hooks={"user_prompt_submit": refuse})
    async with held(store, options) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two")
        await runs.steer("three")
    assert runs.ends == {
        "two": "blocked:user_prompt_submit",
        "three": "steered",
        "one": "completed",
    }
    assert asked(runs.results["one"].messages) == ["one", "three"]
    # The steered run's hooks decide, and the record of their actions belongs to that run.
    hook_events = [e for e in await store.load("s") if isinstance(e, HookEvent)]
    assert [e.run_id for e in hook_events] == [runs.results["one"].run_id]


async def test_failing_hook_fails_steering_caller(
    autojump_clock: MockClock,
) -> None:
    async def fail(event: UserPromptSubmitEvent) -> None:
        if event.prompt == "two":
            raise ValueError("oh")

    async with held(options=an_agent(hooks={"user_prompt_submit": fail})) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two")
    assert isinstance(runs.errors["two"], HookError)
    assert runs.ends == {"one": "completed"}


async def test_input_outlasting_the_run_runs_alone(
    autojump_clock: MockClock,
) -> None:
    async def slowly(event: UserPromptSubmitEvent) -> None:
        if event.prompt == "two":
            await trio.sleep(3)

    async with held(options=an_agent(hooks={"user_prompt_submit": slowly})) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two")
    assert list(runs.ends.items()) == [("one", "completed"), ("two", "completed")]
    assert asked(runs.results["two"].messages) == ["one", "two"]


async def test_input_can_be_withdrawn_during_hooks(autojump_clock: MockClock) -> None:
    async def slowly(event: UserPromptSubmitEvent) -> None:
        if event.prompt == "two":
            await trio.sleep(3)

    async with held(options=an_agent(hooks={"user_prompt_submit": slowly})) as runs:
        await runs.start("nap", wait=0.5)
        await runs.steer("two")
        runs.scopes["two"].cancel()
    assert runs.ends == {"nap": "completed"}
    assert asked(runs.results["nap"].messages) == ["nap"]


async def test_input_to_ancestor_run_is_refused(
    autojump_clock: MockClock,
) -> None:
    seen: list[str] = []

    async def see(event: UserPromptSubmitEvent) -> None:
        seen.append(event.prompt)

    async with open_runtime() as runtime:

        @tool
        async def speak() -> str:
            """Steer the enclosing run."""
            with pytest.raises(SessionBusy, match="descendant"):
                await runtime.steer("s", "to myself")
            return "refused"

        model = ScriptedModel([[call("speak")], "Done."])
        options = AgentOptions(
            model="m", provider=model, tools=[speak], hooks={"user_prompt_submit": see}
        )
        result = await runtime.run("go", options, session_id="s")
    assert (result.text, seen) == ("Done.", ["go"])


async def test_refused_input_stays_refused_after_run(
    autojump_clock: MockClock,
) -> None:
    async def refuse(event: UserPromptSubmitEvent) -> HookDecision | None:
        if event.prompt == "one":
            return None
        await trio.sleep(3)
        return HookDecision(continue_=False)

    async with held(options=an_agent(hooks={"user_prompt_submit": refuse})) as runs:
        await runs.start("one", wait=0.5)
        await runs.steer("two", an_agent())
    assert runs.ends == {"one": "completed", "two": "blocked:user_prompt_submit"}
    history = runs.runtime.history("s")
    assert history is not None
    assert asked(history) == ["one"]

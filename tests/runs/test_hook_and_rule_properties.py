"""For any hooks, rules and answers, the history is valid and each call has one result."""

import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import ErrorEvent, Event, ResultEvent, ToolResult, ToolUse
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import AgentError, SessionSuspended
from agent_actors.hooks import HookDecision, PhaseEvent, PostToolUseEvent, PreToolUseEvent, ToolCall
from agent_actors.permissions import PermissionDecision, PermissionPolicy, PermissionRequest
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import (
    ScriptedModel,
    StepOutcome,
    Turn,
    call,
    cancel_at_every_step,
    interleave,
    say,
)
from agent_actors.tools.output import ToolOutput
from tests.runs.helpers import check_history, check_quiet
from tests.sweeps import STRIDE

TEXTS = ("a", "b", "bad")
text = st.sampled_from(TEXTS)


@tool
async def echo(text: str) -> str:
    """Say it again."""
    await trio.sleep(0.25)
    carried_out.append(text)
    return text


carried_out: list[str] = []

decisions = st.one_of(
    st.none(),
    st.builds(HookDecision, continue_=st.booleans(), reason=text),
    st.builds(HookDecision, modified_input=st.fixed_dictionaries({"text": text})),
    st.builds(HookDecision, modified_output=text),
    st.builds(HookDecision, stop=st.just(True), reason=text),
)
answers = st.one_of(
    st.sampled_from([True, False]),
    st.builds(PermissionDecision, st.sampled_from(["allow", "deny", "ask"])),
    st.builds(
        PermissionDecision,
        st.just("allow"),
        input=st.fixed_dictionaries({"text": text}),
        remember=st.just("session"),
    ),
)
policies = st.builds(
    PermissionPolicy,
    mode=st.sampled_from(["default", "plan", "bypass", "deny"]),
    ask=st.sampled_from([(), ("echo",), ("echo(text=a)",)]),
    allow=st.sampled_from([(), ("echo",), ("echo(text=b)",)]),
    deny=st.just(("echo(text=bad)",)),
)


@attrs.frozen
class Control:
    """The decisions of hooks and people, in turn, and the policy; an int means an exception."""

    before: tuple[HookDecision | None | int, ...]
    after: tuple[HookDecision | None | int, ...]
    model: tuple[HookDecision | None | int, ...]
    people: tuple[PermissionDecision | bool | int, ...]
    policy: PermissionPolicy | None
    wraps: bool
    suspends: bool


def some(of: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(of | st.just(0), max_size=3).map(tuple)


controls = st.builds(
    Control,
    some(decisions),
    some(decisions),
    some(decisions),
    some(answers),
    st.none() | policies,
    st.booleans(),
    st.booleans(),
)


def agent(control: Control, turns: list[list[str]]) -> AgentOptions:
    before, after, model = (
        itertools.cycle(said or (None,)) for said in (control.before, control.after, control.model)
    )
    people = itertools.cycle(control.people or (True,))

    async def say_next(
        said: "itertools.cycle[HookDecision | int | None]", event: PhaseEvent
    ) -> object:
        await trio.sleep(0.1)
        decision = next(said)
        if decision == 0 and decision is not False:
            raise ValueError("odd")
        return decision

    async def on_before(event: PreToolUseEvent) -> object:
        return await say_next(before, event)

    async def on_after(event: PostToolUseEvent) -> object:
        return await say_next(after, event)

    async def on_model(event: PhaseEvent) -> object:
        return await say_next(model, event)

    async def wrap(one: ToolUseBlock, call_next: ToolCall) -> ToolOutput:
        await call_next(attrs.evolve(one, input={"text": "bad"}))
        return await call_next(one)

    async def can_use_tool(request: PermissionRequest) -> PermissionDecision | bool:
        await trio.sleep(0.1)
        said = next(people)
        if said == 0 and said is not False:
            raise ValueError("odd")
        assert isinstance(said, PermissionDecision | bool)
        return said

    hooks: dict[str, object] = {"before_tool": on_before, "after_tool": on_after}
    hooks |= {"after_model": on_model} | ({"wrap_tool_call": wrap} if control.wraps else {})

    def answer(request: ModelRequest) -> Turn:
        done = sum(message.role == "assistant" for message in request.messages)
        if done < len(turns):
            return [interleave(*(call("echo", {"text": one}) for one in turns[done]))]
        return say("Done.")

    return AgentOptions(
        model="m",
        provider=ScriptedModel(answer),
        tools=[echo],
        hooks=hooks,
        permissions=control.policy,
        can_use_tool=can_use_tool,
        on_ask="suspend" if control.suspends else "wait",
        question_timeout=5,
        max_iterations=6,
    )


async def check_records(store: MemoryStore, session_id: str) -> None:
    records = [r for r in await store.load(session_id) if isinstance(r, Event)]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    ends = [record for record in records if isinstance(record, ResultEvent | ErrorEvent)]
    assert len(ends) == len({record.run_id for record in records})
    used = [record.tool_use_id for record in records if isinstance(record, ToolUse)]
    answered = [record.tool_use_id for record in records if isinstance(record, ToolResult)]
    assert len(set(used)) == len(used)
    assert len(set(answered)) == len(answered)
    if not fold(records).suspended:
        assert set(used) == set(answered)


@given(controls, st.lists(st.lists(text, min_size=1, max_size=3), min_size=1, max_size=2))
def test_any_decisions_keep_history_valid(control: Control, turns: list[list[str]]) -> None:
    async def main() -> None:
        carried_out.clear()
        store = MemoryStore()
        options = agent(control, turns)
        async with open_runtime(store=store) as runtime:
            for prompt in ("Go.", "Again."):
                try:
                    result = await runtime.run(prompt, options, session_id="s")
                except SessionSuspended:
                    break
                except AgentError:
                    pass
                else:
                    check_history(result.messages)
                    if result.questions:
                        said = {question.id: "yes" for question in result.questions}
                        with trio.move_on_after(1000):
                            await resumed(runtime, said, options)
                history = runtime.history("s")
                assert history is not None
                check_history(history)
                check_quiet(runtime)
                assert runtime.questions() == ()
                await check_records(store, "s")
        if control.policy is not None:
            assert "bad" not in carried_out, "something got around the deny rule"

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def resumed(runtime: Runtime, said: dict[str, str], options: AgentOptions) -> None:
    try:
        result = await runtime.resume("s", said, options)
    except AgentError:
        return
    check_history(result.messages)


@asynccontextmanager
async def asking() -> AsyncGenerator[tuple[Runtime, AgentOptions]]:
    """Yield a runtime and an agent with hooks at each call, a policy, and a person to ask."""
    control = Control(
        (HookDecision(modified_input={"text": "b"}), None),
        (HookDecision(modified_output="c"),),
        (None,),
        (PermissionDecision("ask"), True),
        PermissionPolicy(ask=["echo"]),
        wraps=True,
        suspends=False,
    )
    options = agent(control, [["a", "b"]])
    async with open_runtime() as runtime:
        await runtime.run("Before.", attrs.evolve(options, hooks=()), session_id="s")
        yield runtime, options


@pytest.mark.parametrize("seed", [0, 1])
def test_cancel_at_any_step_leaves_nothing(seed: int) -> None:
    async def run(around: tuple[Runtime, AgentOptions]) -> None:
        runtime, options = around
        await runtime.run("Go.", options, session_id="s")

    async def check(_: int, outcome: StepOutcome[tuple[Runtime, AgentOptions]]) -> None:
        runtime, _options = outcome.subject
        history = runtime.history("s")
        assert history is not None
        check_history(history)
        check_quiet(runtime)
        assert runtime.questions() == ()

    cancelled = partial(cancel_at_every_step, run, around=asking, check=check, stride=STRIDE)
    assert cancelled(seed=seed) > 6

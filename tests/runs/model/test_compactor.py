"""Runs that make their conversation shorter before, after or instead of a model call."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_actors import AgentOptions, Compaction, Runtime, open_runtime, tool
from agent_actors.context import CompactionBudget, CompactionPlan, sliding_window
from agent_actors.domain.events import Event, Notification, SessionCompacted
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelRequest
from agent_actors.domain.run import CompactionReport, RunResult
from agent_actors.errors import ConfigError, ProviderStatusError, SessionUnknown
from agent_actors.hooks import CompactEvent, Hook, HookContext, HookDecision
from agent_actors.providers.anthropic.encode import EncodeOptions, encode_request
from agent_actors.sessions import fold
from agent_actors.sessions.compaction import SUMMARY_HEADING, WINDOW_NOTICE
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import (
    ScriptedModel,
    StepOutcome,
    Turn,
    call,
    cancel_at_every_step,
    fail,
    say,
    usage,
)
from tests.runs.helpers import SlowStore, check_history, check_quiet

FILLER = "lorem ipsum " * 30  # about 90 tokens


def is_summary(request: ModelRequest) -> bool:
    return request.system_prompt.startswith("Summarize the transcript")


def last_text(request: ModelRequest) -> str:
    last = request.messages.last()
    assert last is not None
    return last.content


@attrs.define(eq=False)
class Bench:
    """A model that answers with filler and summarizes by copying marked facts."""

    compaction: Compaction | None = attrs.field(factory=lambda: Compaction(tokens=1500))
    summarize: Callable[[ModelRequest], Turn] = attrs.field(
        default=lambda request: copy_facts(request)  # noqa: PLW0108 - defined below
    )
    hooks: tuple[Hook, ...] = ()
    store: MemoryStore = attrs.field(factory=MemoryStore)
    model: ScriptedModel = attrs.field(init=False)
    options: AgentOptions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.model = ScriptedModel(self.turn)
        self.options = AgentOptions(
            model="m",
            provider=self.model,
            compaction=self.compaction,
            hooks=self.hooks,
            tools=(look,),
        )

    def turn(self, request: ModelRequest) -> Turn:
        if is_summary(request):
            return self.summarize(request)
        text = last_text(request)
        if text.startswith("look"):
            return call("look")
        return [say(f"Seen. {FILLER}"), usage(request.messages.estimate_tokens(), 100)]

    @property
    def sent(self) -> list[Messages]:
        """The conversations of all requests except those for summaries."""
        return [one.messages for one in self.model.requests if not is_summary(one)]

    async def talk(self, runtime: Runtime, turns: int, first: int = 0) -> RunResult:
        results = [
            await runtime.run(f"{number} {FILLER}", self.options, session_id="s")
            for number in range(first, first + turns)
        ]
        return results[-1]

    async def records(self) -> list[Event]:
        return [one for one in await self.store.load("s") if isinstance(one, Event)]


@tool
def look() -> str:
    """Look around."""
    return "A result. " * 100


def copy_facts(request: ModelRequest) -> str:
    words = last_text(request).split()
    return "In short. " + " ".join(dict.fromkeys(w for w in words if w.startswith("FACT")))


def refuse(_: ModelRequest) -> Turn:
    return [fail(status(500, "down"))]


def status(code: int, message: str) -> ProviderStatusError:
    headers = {"x-should-retry": "false"}
    return ProviderStatusError(endpoint="e", status=code, body_message=message, headers=headers)


@pytest.mark.feature("ASDK-101", "WICK-070", "WICK-092")
async def test_long_conversation_is_summarized() -> None:
    bench = Bench()
    async with open_runtime(store=bench.store) as runtime:
        await runtime.run("FACT-3 matters", bench.options, session_id="s")
        result = await bench.talk(runtime, 20)
        reloaded = Bench(store=bench.store)
        async with open_runtime(store=bench.store) as again:
            assert await again.sessions.history("s") == result.messages
            await reloaded.talk(again, 1, 20)
    assert all(messages.estimate_tokens() < 1700 for messages in bench.sent)
    assert result.messages[0].content.startswith(f"{SUMMARY_HEADING}\n\nIn short. FACT-3")
    [before, *_] = reloaded.sent
    assert before.as_tuple()[:-1] == result.messages.as_tuple()
    for number, messages in enumerate(bench.sent[1:]):
        check_history(messages)
        assert messages[-1].content.startswith(f"{number} ")
    kinds = [one.kind for one in await bench.records() if isinstance(one, SessionCompacted)]
    assert set(kinds) == {"summary"}
    assert len(kinds) > 1


@pytest.mark.feature("OAS-116")
async def test_conversation_grows_without_compaction() -> None:
    bench = Bench(compaction=None)
    async with open_runtime(store=bench.store) as runtime:
        result = await bench.talk(runtime, 20)
    assert len(result.messages) == 40
    assert result.compactions == ()
    assert len(bench.model.requests) == 20


@pytest.mark.feature("WICK-065", "WICK-066")
@pytest.mark.parametrize(("reported", "compacts"), [(108_000, False), (109_500, True)])
async def test_default_threshold_uses_reported_tokens(reported: int, compacts: bool) -> None:
    script = [say("One."), say("Two."), say("Three."), say("Short."), say("Four.")]
    model = ScriptedModel(script)
    options = AgentOptions(model="m", provider=model, compaction=True)
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        for prompt in (FILLER, FILLER, "c"):
            await runtime.run(prompt, options, session_id="s")
        state = runtime._actors.log.peek_state("s")
        assert state is not None
        state.reported_tokens = reported
        assert await runtime.sessions.should_compact("s", options) is compacts
        result = await runtime.run("d", options, session_id="s")
    assert bool(result.compactions) is compacts


@pytest.mark.feature("WICK-067")
async def test_newest_tenth_of_messages_stays() -> None:
    seen: list[CompactionReport] = []
    for turns, kept in ((4, 2), (40, 8)):
        bench = Bench(compaction=None)
        async with open_runtime(store=bench.store) as runtime:
            result = await bench.talk(runtime, turns)
            report = await runtime.sessions.compact("s", bench.options)
            history = await runtime.sessions.history("s")
        assert report is not None
        assert history is not None
        seen.append(report)
        assert history.as_tuple()[1:] == result.messages.as_tuple()[-kept:]
    assert [report.replaced_messages for report in seen] == [6, 72]


@pytest.mark.feature("WICK-068", "WICK-069")
async def test_summary_request_is_short_and_plain() -> None:
    @tool
    def write(path: str, content: str) -> str:
        """Write a file."""
        return f"{path}: {len(content)}"

    def script(request: ModelRequest) -> Turn:
        if is_summary(request):
            return "word " * 3000
        long = {"path": "a.txt", "content": "x" * 60_000}
        return call("write", long) if last_text(request) == "go" else "Done."

    model = ScriptedModel(script)
    options = AgentOptions(model="m", provider=model, tools=(write,))
    async with open_runtime() as runtime:
        await runtime.run("go", options, session_id="s")
        await runtime.run("next", options, session_id="s")
        report = await runtime.sessions.compact("s", options, instructions="Keep the paths.")
    request = model.requests[-1]
    assert is_summary(request)
    assert request.system_prompt.endswith("Keep the paths.")
    assert "fewer than 2000 words" in request.system_prompt
    assert (request.tools, len(request.messages)) == ((), 1)
    text = request.messages[0].content
    assert "x" * 2000 in text
    assert "x" * 2001 not in text
    assert "Result of write: a.txt: 60000" in text
    assert report is not None
    assert len(report.summary.split()) == 2001  # and the mark of the cut


@pytest.mark.feature("WICK-071")
async def test_failed_summary_leaves_conversation() -> None:
    bench = Bench(summarize=refuse)
    async with open_runtime(store=bench.store) as runtime:
        result = await bench.talk(runtime, 12)
        with pytest.raises(ProviderStatusError, match="down"):
            await runtime.sessions.compact("s", bench.options)
        history = await runtime.sessions.history("s")
    assert len(result.messages) == 24
    assert history == result.messages
    notes = [one.text for one in await bench.records() if isinstance(one, Notification)]
    assert notes
    assert all(note.startswith("the conversation was not compacted: ") for note in notes)


@pytest.mark.feature("ASDK-102")
async def test_summaries_use_their_own_model() -> None:
    bench = Bench(compaction=Compaction(tokens=1500, model="small"))
    async with open_runtime(store=bench.store) as runtime:
        await bench.talk(runtime, 12)
    models = {(is_summary(one), one.settings.model) for one in bench.model.requests}
    assert models == {(True, "small"), (False, "m")}


@pytest.mark.feature("ASDK-103")
async def test_session_is_compacted_on_request() -> None:
    bench = Bench(compaction=None)
    async with open_runtime(store=bench.store) as runtime:
        with pytest.raises(SessionUnknown):
            await runtime.sessions.compact("s", bench.options)
        await bench.talk(runtime, 1)
        assert await runtime.sessions.compact("s", bench.options) is None
        result = await bench.talk(runtime, 9, 1)
        last = await runtime.sessions.snapshot("s")
        assert last is not None
        size = await runtime.sessions.context("s", bench.options)
        assert (size.reported, size.limit, size.summary) == (True, None, 0)
        report = await runtime.sessions.compact("s", bench.options)
        assert report is not None
        smaller = await runtime.sessions.context("s", bench.options)
        assert 0 < smaller.summary < smaller.total < size.total
        assert not await runtime.sessions.should_compact("s", bench.options)
        assert await runtime.sessions.rewind("s", last.last_seq) == result.messages
        check_quiet(runtime)


async def test_long_run_repeats_its_prompt() -> None:
    """One run whose own calls exceed the limit keeps its task, also after a reload."""

    def script(request: ModelRequest) -> Turn:
        if is_summary(request):
            return "The work so far."
        results = sum(one.role == "tool" for one in request.messages)
        seen.append(results)
        return "Done." if len(seen) > 14 else call("look")

    seen: list[int] = []
    model, store = ScriptedModel(script), MemoryStore()
    options = AgentOptions(
        model="m", provider=model, tools=(look,), compaction=Compaction(tokens=1200)
    )
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("the task", options, session_id="s")
    asked = [one.messages for one in model.requests if not is_summary(one)]
    assert len(result.compactions) > 1
    for messages in asked:
        check_history(messages)
        assert [one.content for one in messages.user_messages()][-1] == "the task"
    async with open_runtime(store=store) as runtime:
        assert await runtime.sessions.history("s") == result.messages


async def test_old_results_are_cleared_first() -> None:
    bench = Bench(compaction=Compaction(tokens=2400, clear_results_after=2))
    async with open_runtime(store=bench.store) as runtime:
        for number in range(8):
            result = await runtime.run(f"look {number}", bench.options, session_id="s")
        result = await bench.talk(runtime, 1)
    kinds = [one.kind for one in await bench.records() if isinstance(one, SessionCompacted)]
    assert kinds[0] == "results"
    tools = [one.content for one in result.messages.tool_messages()]
    assert any(
        "This result of look, which had 1000 characters, was removed" in one for one in tools
    )
    assert not any(is_summary(one) for one in bench.model.requests[:10])


@pytest.mark.parametrize("on_overflow", ["error", "compact"])
async def test_overflow_compacts_once(on_overflow: str) -> None:
    def script(request: ModelRequest) -> Turn:
        if is_summary(request):
            return "In short."
        if request.messages.estimate_tokens() > 900:
            return [fail(status(400, "This model's maximum context length is 900 tokens"))]
        return f"Seen. {FILLER}"

    options = AgentOptions(
        model="m",
        provider=ScriptedModel(script),
        on_overflow="compact" if on_overflow == "compact" else "error",
    )
    async with open_runtime() as runtime:

        async def talk() -> RunResult:
            results = [
                await runtime.run(f"{number} {FILLER}", options, session_id="s")
                for number in range(12)
            ]
            return results[-1]

        if on_overflow == "compact":
            result = await talk()
            assert result.messages[0].content.startswith(SUMMARY_HEADING)
            return
        with pytest.raises(ProviderStatusError, match="on_overflow='compact'"):
            await talk()


async def test_overflow_without_remedy_raises() -> None:
    def script(_: ModelRequest) -> Turn:
        return [fail(status(400, "prompt is too long: 9 tokens > 8 maximum"))]

    model = ScriptedModel(script)
    options = AgentOptions(model="m", provider=model, on_overflow="compact")
    async with open_runtime() as runtime:
        with pytest.raises(ProviderStatusError, match="prompt is too long"):
            await runtime.run("hi", options, session_id="s")
    assert len(model.requests) == 1


class Opinion(Hook):
    """Decides about compactions in a fixed way."""

    def __init__(self, decision: HookDecision | None) -> None:
        self.decision = decision
        self.seen: list[CompactEvent] = []

    async def on_compact(self, event: CompactEvent, ctx: HookContext) -> HookDecision | None:
        self.seen.append(event)
        return self.decision


async def test_hook_replaces_the_summary() -> None:
    hook = Opinion(HookDecision(modified_output="My own summary."))
    bench = Bench(hooks=(hook,), summarize=refuse)
    async with open_runtime(store=bench.store) as runtime:
        result = await bench.talk(runtime, 9)
    assert result.messages[0].content == f"{SUMMARY_HEADING}\n\nMy own summary."
    assert (hook.seen[0].trigger, hook.seen[0].kind) == ("threshold", "summary")


async def test_hook_refuses_a_compaction() -> None:
    bench = Bench(hooks=(Opinion(HookDecision(continue_=False, reason="not now")),))
    async with open_runtime(store=bench.store) as runtime:
        result = await bench.talk(runtime, 12)
    assert len(result.messages) == 24
    assert len(bench.model.requests) == 12


async def test_sliding_window_keeps_first_prompt() -> None:
    bench = Bench(compaction=Compaction(tokens=1500, plan=sliding_window(pinned=1)))
    async with open_runtime(store=bench.store) as runtime:
        result = await bench.talk(runtime, 20)
    assert result.messages[0].content == WINDOW_NOTICE
    assert result.messages[1].content.startswith("0 ")
    assert len(bench.model.requests) == 20


async def test_invalid_plan_is_reported() -> None:
    def cut_result(history: Messages, _: CompactionBudget) -> CompactionPlan:
        return CompactionPlan([one.role for one in history].index("tool"))

    def broken(_: Messages, __: CompactionBudget) -> CompactionPlan:
        raise ZeroDivisionError("oops")

    for plan, why in ((cut_result, "cuts at message 2"), (broken, "ZeroDivisionError: oops")):
        bench = Bench(compaction=Compaction(plan=plan))
        async with open_runtime(store=bench.store) as runtime:
            await runtime.run("look", bench.options, session_id="s")
            with pytest.raises(ConfigError, match=why):
                await runtime.sessions.compact("s", bench.options)


async def test_prefix_stays_identical_between_compactions() -> None:
    bench = Bench()
    async with open_runtime(store=bench.store) as runtime:
        await bench.talk(runtime, 24)
    changes = 0
    requests = [one for one in bench.model.requests if not is_summary(one)]
    for one, following in pairwise(requests):
        before = encode_request(one, EncodeOptions())
        begin = before.index(b'"messages":[')
        shared = before[begin : before.index(b'],"stream"')]
        changes += not encode_request(following, EncodeOptions())[begin:].startswith(shared)
    compacted = [one for one in await bench.records() if isinstance(one, SessionCompacted)]
    assert changes == len(compacted) > 1


@attrs.define(eq=False)
class Full:
    """A runtime whose next run compacts the conversation."""

    runtime: Runtime
    bench: Bench


@asynccontextmanager
async def full() -> AsyncGenerator[Full]:
    bench = Bench(Compaction(tokens=500, clear_results_after=1), store=SlowStore())
    patient = bench.options.evolve(compaction=None)
    async with open_runtime(store=bench.store) as runtime:
        await runtime.run("look", patient, session_id="s")
        for number in range(3):
            await runtime.run(f"{number} {FILLER}", patient, session_id="s")
        yield Full(runtime, bench)


def test_cancelled_compaction_leaves_valid_session() -> None:
    async def code(one: Full) -> None:
        await one.runtime.run("next", one.bench.options, session_id="s")

    async def check(_: int, outcome: StepOutcome[Full]) -> None:
        runtime, bench = outcome.subject.runtime, outcome.subject.bench
        check_quiet(runtime)
        history = await runtime.sessions.history("s")
        assert history is not None
        check_history(history)
        assert fold(await bench.store.load("s")).history() == history
        outcomes.add(history[0].content.startswith(SUMMARY_HEADING))
        again = await runtime.run("again", bench.options, session_id="s")
        assert again.messages.user_messages()[-1].content == "again"
        for messages in bench.sent:
            check_history(messages)

    outcomes: set[bool] = set()
    assert cancel_at_every_step(code, around=full, check=check) > 20
    assert outcomes == {False, True}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["say", "look"]), min_size=1, max_size=10),
    st.integers(50, 1500),
    st.sampled_from([None, 1]),
    st.lists(st.booleans(), max_size=4),
)
def test_any_compacted_session_sends_newest_prompt(
    steps: list[str], tokens: int, clear: int | None, failures: list[bool]
) -> None:
    outcomes = iter(failures)

    def summarize(request: ModelRequest) -> Turn:
        return refuse(request) if next(outcomes, False) else "In short."

    async def main() -> None:
        compaction = Compaction(tokens=tokens, clear_results_after=clear)
        bench = Bench(compaction=compaction, summarize=summarize)
        async with open_runtime(store=bench.store) as runtime:
            for number, step in enumerate(steps):
                prompt = f"{step} {number}"
                result = await runtime.run(prompt, bench.options, session_id="s")
                check_history(result.messages)
                assert bench.sent[-1].user_messages()[-1].content == prompt
            for messages in bench.sent:
                check_history(messages)
            history = await runtime.sessions.history("s")
        async with open_runtime(store=bench.store) as runtime:
            assert await runtime.sessions.history("s") == history

    trio.run(main)

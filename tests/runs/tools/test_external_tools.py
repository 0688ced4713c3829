"""Tools without a handler: the run ends with their calls, and resumes with the results."""

import attrs
import pytest

from agent_actors import (
    AgentOptions,
    Client,
    HookDecision,
    PostToolUseEvent,
    PreToolUseEvent,
    Runtime,
    Tool,
    ToolOutput,
    ToolResultBlock,
    open_runtime,
)
from agent_actors.domain.events import Event, RunSuspended, ToolResult, ToolUse
from agent_actors.domain.run import RunResult
from agent_actors.errors import (
    CallClosed,
    ConfigError,
    HookError,
    QuestionClosed,
    SessionSuspended,
)
from agent_actors.hooks import Hooks
from agent_actors.hooks.builtin import TruncateOutput
from agent_actors.permissions import PermissionPolicy
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import Turn, call, interleave
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import agent, asked, echo, ran, results


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


browse = Tool("browse", "Open a page in the user's browser.", {"url": str})


def pages(*urls: str) -> Turn:
    return [interleave(*(call("browse", {"url": url}) for url in urls))]


def browsing(*turns: Turn, hooks: Hooks = ()) -> AgentOptions:
    return attrs.evolve(agent(*(turns or (pages("a"), "Done.")), hooks=hooks), tools=[browse, echo])


async def suspended(runtime: Runtime, options: AgentOptions) -> RunResult:
    result = await runtime.run("Go.", options, session_id="s")
    assert result.stop_reason == "awaiting_approval"
    check_history(result.messages)
    check_quiet(runtime)
    return result


def urls(result: RunResult) -> list[object]:
    return [one.input["url"] for one in result.external_calls]


async def test_run_suspends_and_resumes_with_results() -> None:
    store, options = MemoryStore(), browsing(pages("a", "b"), "Done.")
    async with open_runtime(store=store) as runtime:
        first = await suspended(runtime, options)
        one, two = first.external_calls
        assert (one.name, one.input, two.input) == ("browse", {"url": "a"}, {"url": "b"})
        assert (first.questions, first.tool_calls) == ((), ())
        given = {two.id: {"title": "B"}, one.id: "Welcome"}
        result = await runtime.resume("s", {}, options, results=given)
        assert (result.text, result.external_calls) == ("Done.", ())
        assert [one.content for one in result.tool_calls] == ["Welcome", {"title": "B"}]
        assert [m.role for m in result.messages] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
        ]
        check_history(result.messages)
        check_quiet(runtime)
        records = await store.load("s")
        (left,) = [record for record in records if isinstance(record, RunSuspended)]
        assert left.external_calls == {one.id: {"url": "a"}, two.id: {"url": "b"}}
        observed = [record.tool_use_id for record in records if isinstance(record, ToolResult)]
        assert observed == [one.id, two.id]


async def test_other_calls_and_questions_continue() -> None:
    turn = interleave(
        *(call("echo", {"text": text}) for text in "ab"), call("browse", {"url": "c"})
    )
    options = attrs.evolve(
        browsing([turn], "Done."),
        permissions=PermissionPolicy(ask=["echo(text=b)"], mode="bypass"),
        on_ask="suspend",
    )
    async with open_runtime() as runtime:
        first = await suspended(runtime, options)
        assert (ran, len(first.tool_calls)) == (["a"], 1)
        (question,), (page,) = first.questions, first.external_calls
        seen = await runtime.sessions.snapshot("s")
        assert seen is not None
        assert (seen.questions[0].id, seen.external_calls) == (question.id, (page,))
        with pytest.raises(SessionSuspended) as observed:
            await runtime.run("Hello?", options, session_id="s")
        waits = f"is waiting for answers to {question.id} and for the results of calls {page.id};"
        assert waits in str(observed.value)
        again = await runtime.resume("s", {question.id: "yes"}, options)
        assert (again.stop_reason, again.questions) == ("awaiting_approval", ())
        assert again.external_calls == (page,)
        assert ran == ["a", "b"]
        result = await runtime.resume("s", {}, options, results={page.id: "Welcome"})
        assert result.text == "Done."
        told_model = [m.content for m in result.messages if m.role == "tool"]
        assert told_model == ["said a", "said b", "Welcome"]


async def test_external_calls_hold_no_slots() -> None:
    calls = [call("browse", {"url": str(number)}) for number in range(20)]
    options = browsing([interleave(*calls, call("echo", {"text": "a"}))], "Done.")
    async with open_runtime(tools_per_run=1, tools_per_runtime=1) as runtime:
        first = await suspended(runtime, options)
        assert (urls(first), ran) == ([str(number) for number in range(20)], ["a"])


async def test_external_call_passes_hooks_and_permissions() -> None:
    seen: list[str] = []

    async def pin(event: PreToolUseEvent) -> HookDecision | None:
        if event.recheck:
            return None
        seen.append("before")
        return HookDecision(modified_input={"url": f"https://{event.tool_input['url']}"})

    async def note(event: PostToolUseEvent) -> HookDecision:
        seen.append(f"after {event.tool_input['url']} {event.is_error}")
        return HookDecision(modified_output=f"seen: {event.tool_result}")

    options = attrs.evolve(
        browsing(pages("a", "bad"), "Done.", hooks={"before_tool": pin, "after_tool": note}),
        permissions=PermissionPolicy(deny=["browse(url=https://bad)"], mode="bypass"),
    )
    async with open_runtime() as runtime:
        first = await suspended(runtime, options)
        assert (urls(first), seen) == (["https://a"], ["before", "before"])
        (page,) = first.external_calls
        failed = ToolOutput("404", is_error=True)
        result = await runtime.resume("s", {}, options, results={page.id: failed})
        assert seen[2:] == ["after https://a True"]
        (observed,) = result.tool_calls
        assert (observed.content, observed.is_error, observed.input) == (
            "seen: 404",
            True,
            {"url": "https://a"},
        )


async def test_approved_external_call_is_deferred() -> None:
    policy = PermissionPolicy(ask=["browse"])
    options = attrs.evolve(browsing(), permissions=policy, on_ask="suspend")
    async with open_runtime() as runtime:
        first = await suspended(runtime, options)
        (question,) = first.questions
        assert first.external_calls == ()
        with pytest.raises(CallClosed):
            await runtime.resume("s", {}, options, results={question.tool_use_id: "early"})
        second = await runtime.resume("s", {question.id: "yes"}, options)
        (page,) = second.external_calls
        denying = attrs.evolve(options, permissions=PermissionPolicy(deny=["browse"]))
        result = await runtime.resume("s", {}, denying, results={page.id: "Welcome"})
        assert result.text == "Done.", "the call was carried out already"


async def test_result_is_converted_like_tool_output() -> None:
    options = browsing(pages("a", "b", "c"), "Done.", hooks=[TruncateOutput(limit=40, keep=2)])
    async with open_runtime() as runtime:
        one, two, three = (await suspended(runtime, options)).external_calls
        given = {one.id: "x" * 99, two.id: TimeoutError("no answer"), three.id: None}
        result = await runtime.resume("s", {}, options, results=given)
        cut, failed, empty = result.tool_calls
        assert "truncated" in str(cut.content)
        assert (failed.content, failed.is_error) == ("TimeoutError: no answer", True)
        assert (empty.content, empty.is_error) == ("", False)
        assert cut.completed_at > 0


@pytest.mark.parametrize("given", [object(), {"a": object()}, ToolResultBlock("other", "x")])
async def test_invalid_result_is_refused_early(
    given: object,
) -> None:
    options = browsing()
    async with open_runtime() as runtime:
        (page,) = (await suspended(runtime, options)).external_calls
        with pytest.raises(ConfigError, match=f"results: .*{page.id}"):
            await runtime.resume("s", {}, options, results={page.id: given})
        block = ToolResultBlock(page.id, "Welcome", is_error=True)
        result = await runtime.resume("s", {}, options, results={page.id: block})
        assert (results(result), result.tool_calls[0].is_error) == (["Welcome"], True)


async def test_unknown_and_duplicate_results_are_refused() -> None:
    options = browsing(pages("a", "b"), "Done.")
    async with open_runtime() as runtime:
        one, two = (await suspended(runtime, options)).external_calls
        with pytest.raises(CallClosed, match="call 'other' does not accept a result") as unknown:
            await runtime.resume("s", {}, options, results={one.id: "A", "other": "x"})
        assert (unknown.value.call_id, unknown.value.session_id) == ("other", "s")
        with pytest.raises(QuestionClosed):
            await runtime.resume("s", {"nothing": "yes"}, options, results={one.id: "A"})
        again = await runtime.resume("s", {}, options, results={one.id: "A"})
        assert (again.stop_reason, again.external_calls) == ("awaiting_approval", (two,))
        assert results(again) == ["A"]
        with pytest.raises(CallClosed):
            await runtime.resume("s", {}, options, results={one.id: "A", two.id: "B"})
        assert (await runtime.resume("s", {}, options, results={two.id: "B"})).text == "Done."
        with pytest.raises(SessionSuspended, match="is not waiting for answers or results"):
            await runtime.resume("s", {}, options, results={two.id: "B"})


async def test_a_prompt_may_close_external_calls() -> None:
    store, options = MemoryStore(), browsing(pages("a"), "Never mind, then.")
    async with open_runtime(store=store) as runtime:
        await suspended(runtime, options)
        denying = attrs.evolve(options, on_suspended="deny")
        result = await runtime.run("Forget it.", denying, session_id="s")
        observed = [m.content for m in result.messages if m.role == "tool"]
        assert observed == ["no result was given for this call before the conversation continued"]
        check_history(asked(options)[-1].messages)
        closed = [r for r in await store.load("s") if isinstance(r, ToolResult)]
        assert [(r.is_error, r.synthetic) for r in closed] == [(True, True)]


# --- hooks of the resumed run ---


async def test_failing_result_hook_keeps_session() -> None:
    async def fail(event: PostToolUseEvent) -> None:
        raise ValueError(event.tool_name)

    options = browsing()
    failing = attrs.evolve(options, hooks={"after_tool": fail})
    async with open_runtime() as runtime:
        (page,) = (await suspended(runtime, options)).external_calls
        with pytest.raises(HookError, match="browse"):
            await runtime.resume("s", {}, failing, results={page.id: "Welcome"})
        check_quiet(runtime)
        result = await runtime.resume("s", {}, options, results={page.id: "Welcome"})
        assert results(result) == ["Welcome"]


async def test_refused_resume_keeps_suspension() -> None:
    async def refuse(event: object) -> HookDecision:
        return HookDecision(continue_=False, reason="closed on Sundays")

    options = browsing()
    refusing = attrs.evolve(options, hooks={"before_agent": refuse})
    async with open_runtime() as runtime:
        (page,) = (await suspended(runtime, options)).external_calls
        result = await runtime.resume("s", {}, refusing, results={page.id: "Welcome"})
        assert result.stop_reason == "blocked:before_agent"
        result = await runtime.resume("s", {}, options, results={page.id: "Welcome"})
        assert result.text == "Done."


@pytest.mark.parametrize("given", ["one", "both"])
async def test_result_stop_keeps_result_closes_others(
    given: str,
) -> None:
    async def stop(event: PostToolUseEvent) -> HookDecision:
        return HookDecision(stop=True, continue_=False, reason="enough")

    store = MemoryStore()
    turn = interleave(
        *(call("browse", {"url": url}) for url in "ab"),
        *(call("echo", {"text": text}) for text in "cde"),
    )
    asking = PermissionPolicy(ask=["echo"], mode="bypass")
    options = browsing([turn] if given == "one" else pages("a", "b"), "Done.")
    options = attrs.evolve(options, permissions=asking, on_ask="suspend")
    begun: list[str] = []

    async def note(event: PreToolUseEvent) -> None:
        begun.append(event.tool_name)

    stopping = attrs.evolve(options, hooks={"after_tool": stop, "before_tool": note})
    async with open_runtime(store=store) as runtime:
        first = await suspended(runtime, options)
        one, two = first.external_calls
        said = {question.id: "yes" for question in first.questions}
        some = {one.id: "A"} if given == "one" else {one.id: "A", two.id: "B"}
        result = await runtime.resume("s", said, stopping, results=some)
        assert (result.stop_reason, ran, begun) == ("blocked:after_tool", [], [])
        assert results(result)[0] == "A"
        check_history(result.messages)
        records = [r for r in await store.load("s") if isinstance(r, Event)]
        used = [r.tool_use_id for r in records if isinstance(r, ToolUse)]
        observed = [r.tool_use_id for r in records if isinstance(r, ToolResult)]
        assert sorted(used) == sorted(observed)
        check_quiet(runtime)


# --- in another process ---


async def test_manual_client_receives_external_calls() -> None:
    async with Client(browsing()) as client:
        await client.query("Go.")
        (use,) = [block async for block in client.receive_messages()]
        assert use.type == "tool_use"
        assert client.result is not None
        assert client.result.stop_reason == "awaiting_results"
        await client.add_tool_result(use.id, "Welcome")
        await client.continue_turn()
        assert [getattr(b, "text", "") async for b in client.receive_messages()] == ["Done."]


async def test_automatic_client_leaves_external_calls() -> None:
    options = attrs.evolve(browsing(), auto_execute_tools=True)
    async with Client(options) as client:
        await client.query("Go.")
        async for _ in client.receive_messages():
            pass
        assert client.result is not None
        (page,) = client.result.external_calls
        await client.add_tool_result(page.id, "Welcome")
        await client.continue_turn()
        assert [getattr(b, "text", "") async for b in client.receive_messages()] == ["Done."]


async def test_external_tool_cannot_be_called() -> None:
    assert browse.external
    assert not echo.external
    with pytest.raises(LookupError, match="the tool has no handler"):
        await browse.execute({"url": "a"})

"""Hooks around a client: prompts, handed-out calls, and their results."""

import pytest
import trio
from trio.testing import MockClock

from agent_actors import Client, ClientError, PromptBlocked, ToolUseError, open_runtime, query
from agent_actors.domain.events import HookEvent, ResultEvent, ToolResult
from agent_actors.errors import HookError
from agent_actors.hooks import (
    HookContext,
    HookDecision,
    PostToolUseEvent,
    PreToolUseEvent,
    UserPromptSubmitEvent,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import call
from tests.client.helpers import ONE_SUM, agent, ask, calls_of, read, roles, shown
from tests.runs.helpers import check_history, check_quiet

seen: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()


async def prompted(event: UserPromptSubmitEvent) -> None:
    seen.append(f"prompt {event.prompt}")


async def before(event: PreToolUseEvent) -> None:
    seen.append(f"before {event.tool_name}")


async def after(event: PostToolUseEvent) -> None:
    seen.append(f"after {event.tool_name} {event.tool_result}")


ALL = {"user_prompt_submit": [prompted], "pre_tool_use": [before], "post_tool_use": [after]}


@pytest.mark.feature("OAS-059", "OAS-043")
async def test_hooks_fire_around_yielded_call() -> None:
    options, _ = agent(ONE_SUM, "It is 3.", hooks=ALL)
    async with Client(options) as client:
        await client.query("1 + 2?")
        async for block in client.receive_messages():
            seen.extend(shown([block]))
        assert seen[-2:] == ["before add", "use add"]
        await client.add_tool_result("call_1_0", {"sum": 3})
        assert seen[-1] == "after add {'sum': 3}"
        await client.continue_turn()
        await read(client)
    assert [one for one in seen if one.startswith("prompt")] == ["prompt 1 + 2?"]


@pytest.mark.feature("OAS-103")
async def test_refused_prompt_raises_its_reason() -> None:
    async def guard(event: UserPromptSubmitEvent) -> HookDecision | None:
        return HookDecision(continue_=False, reason="not here") if "rm" in event.prompt else None

    options, model = agent("Hello.", hooks={"user_prompt_submit": [guard]})
    async with open_runtime() as runtime, Client(options, runtime=runtime) as client:
        with pytest.raises(PromptBlocked, match=r"^not here$") as caught:
            await client.query("rm -rf")
        assert caught.value.reason == "not here"
        assert (model.requests, client.history) == ([], [])
        assert client.result is not None
        assert client.result.stop_reason == "blocked:user_prompt_submit"
        assert client.turn_count == 0
        check_quiet(runtime)
        assert shown(await ask(client, "Hi.")) == ["text Hello."]


async def test_missing_reason_names_hook_and_phase() -> None:
    async def guard(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision(continue_=False)

    async with Client(agent("x", hooks={"user_prompt_submit": [guard]})[0]) as client:
        with pytest.raises(
            PromptBlocked, match=r"guard.* blocked the prompt in user_prompt_submit"
        ):
            await client.query("?")


async def test_a_refused_prompt_leaves_open_calls_open() -> None:
    async def guard(event: UserPromptSubmitEvent) -> HookDecision | None:
        return HookDecision(continue_=False, reason="no") if event.prompt == "bad" else None

    options, _ = agent(ONE_SUM, "It is 3.", hooks={"user_prompt_submit": [guard]})
    async with Client(options) as client:
        await ask(client, "1 + 2?")
        with pytest.raises(PromptBlocked):
            await client.query("bad")
        await client.add_tool_result("call_1_0", "3")
        await client.continue_turn()
        assert shown(await read(client)) == ["text It is 3."]


@pytest.mark.parametrize("phase", ["before_agent", "before_model", "session_start"])
async def test_later_denial_is_raised_too(phase: str) -> None:
    async def guard(event: object) -> HookDecision:
        return HookDecision(continue_=False, reason="closed")

    options, model = agent("x", hooks={phase: [guard]})
    async with Client(options) as client:
        with pytest.raises(PromptBlocked, match=r"^closed$"):
            await ask(client, "?")
        assert model.requests == []


async def test_rewritten_prompt_is_sent_and_kept() -> None:
    async def mend(event: UserPromptSubmitEvent) -> HookDecision:
        return HookDecision(modified_prompt=event.prompt.upper())

    options, model = agent("x", hooks={"user_prompt_submit": [mend]})
    async with Client(options) as client:
        await ask(client, "hi")
        assert client.history[0]["content"] == "HI"
    assert model.requests[0].messages[0].content == "HI"


async def test_denied_call_is_a_typed_block() -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(continue_=False, reason="not on my watch")

    options, model = agent(ONE_SUM, "Well then.", hooks={"pre_tool_use": [guard]})
    async with Client(options) as client:
        blocks = await ask(client, "1 + 2?")
        assert shown(blocks)[2:] == ["error add", "text Well then."]
        (error,) = [block for block in blocks if isinstance(block, ToolUseError)]
        assert "not on my watch" in error.error
        assert (error.id, error.name) == ("call_1_0", "add")
    assert "not on my watch" in model.requests[1].messages[-1].content


async def test_denied_call_leaves_others_to_caller() -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision | None:
        return HookDecision(continue_=False, reason="odd") if event.tool_input["a"] == 1 else None

    options, model = agent(
        [call("add", {"a": 1, "b": 2}), call("add", {"a": 2, "b": 2})],
        "4.",
        hooks={"pre_tool_use": [guard]},
    )
    async with Client(options) as client:
        blocks = await ask(client, "?")
        assert shown(blocks) == ["error add", "use add"]
        await client.add_tool_result("call_1_1", "4")
        await client.continue_turn()
        await read(client)
    assert roles(model.requests[1]) == ["user", "assistant", "tool", "tool"]
    check_history(model.requests[1].messages)


async def test_rewritten_call_is_yielded() -> None:
    async def sandbox(event: PreToolUseEvent) -> HookDecision:
        return HookDecision(modified_input={"a": 10, "b": 20})

    inputs: list[object] = []

    async def look(event: PostToolUseEvent) -> HookDecision:
        inputs.append(event.tool_input)
        return HookDecision(modified_output="thirty")

    options, _ = agent(ONE_SUM, hooks={"pre_tool_use": [sandbox], "post_tool_use": [look]})
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "?"))
        assert use.input == {"a": 10, "b": 20}
        await client.add_tool_result(use.id, 30)
        assert inputs == [{"a": 10, "b": 20}]
        assert client.history[-1]["content"] == "thirty"


async def test_hook_state_survives_until_the_result() -> None:
    async def start(event: PreToolUseEvent, context: HookContext) -> None:
        context.state[event.tool_use_id] = "begun"

    found: list[object] = []

    async def end(event: PostToolUseEvent, context: HookContext) -> None:
        found.append(context.state.get(event.tool_use_id))

    options, _ = agent(ONE_SUM, hooks={"pre_tool_use": [start], "post_tool_use": [end]})
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "?"))
        await client.add_tool_result(use.id, "3")
    assert found == ["begun"]


async def test_hooks_see_results_from_another_client() -> None:
    options, _ = agent(ONE_SUM, hooks=ALL)
    async with open_runtime() as runtime:
        async with Client(options, runtime=runtime, session_id="s") as client:
            (use,) = calls_of(await ask(client, "?"))
        seen.clear()
        async with Client(options, runtime=runtime, resume="s") as client:
            await client.add_tool_result(use.id, "3")
    assert seen == ["after add 3"]


async def test_failing_result_hook_keeps_call_open() -> None:
    failing = True

    async def look(event: PostToolUseEvent) -> None:
        if failing:
            raise RuntimeError("oh")

    options, _ = agent(ONE_SUM, "It is 3.", hooks={"post_tool_use": [look]})
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "?"))
        with pytest.raises(HookError, match="oh"):
            await client.add_tool_result(use.id, "3")
        assert "before this call had a result" in str(client.history[-1]["content"])
        failing = False
        await client.add_tool_result(use.id, "3")
        await client.continue_turn()
        await read(client)


async def test_result_stop_stays_recorded_and_reported() -> None:
    async def look(event: PostToolUseEvent) -> HookDecision:
        return HookDecision(stop=True, reason="that will do")

    options, _ = agent(ONE_SUM, hooks={"post_tool_use": [look]})
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "?"))
        with pytest.raises(PromptBlocked, match="that will do"):
            await client.add_tool_result(use.id, "three")
        assert client.history[-1]["content"] == "three"


async def test_result_stop_records_replaced_history_once() -> None:
    async def look(event: PostToolUseEvent) -> HookDecision:
        return HookDecision(stop=True, reason="that will do")

    options, model = agent("Go on.", hooks={"post_tool_use": [look]})
    function = {"name": "add", "arguments": "{}"}
    async with Client(options) as client:
        client.message_history = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]},
        ]
        with pytest.raises(PromptBlocked):
            await client.add_tool_result("c", "three")
        assert client.open_calls == ()
        await client.continue_turn()
        await read(client)
    assert roles(model.requests[0]) == ["user", "assistant", "tool"]


async def test_call_stop_closes_every_call() -> None:
    async def guard(event: PreToolUseEvent) -> HookDecision | None:
        return HookDecision(stop=True, reason="enough") if event.tool_input["a"] == 2 else None

    options, _ = agent(
        [call("add", {"a": 1, "b": 2}), call("add", {"a": 2, "b": 2})],
        hooks={"pre_tool_use": [guard]},
    )
    store = MemoryStore()
    async with open_runtime(store=store) as runtime, Client(options, runtime=runtime) as client:
        blocks = await ask(client, "?")
        assert not calls_of(blocks)
        assert client.result is not None
        assert client.result.stop_reason == "blocked:before_tool"
        with pytest.raises(ClientError, match="has a result"):
            await client.add_tool_result("call_1_0", "3")
        records = await store.load(client.session_id, after_seq=0)
    tool_results = [record for record in records if isinstance(record, ToolResult)]
    assert [(one.is_error, "enough" in str(one.content)) for one in tool_results] == [
        (True, True)
    ] * 2


async def test_dependent_call_is_closed_with_reason(
    autojump_clock: MockClock,
) -> None:
    async def slow(event: PreToolUseEvent) -> None:
        if event.tool_input["a"] == 2:
            await trio.sleep(50)

    options, _ = agent(
        [call("add", {"a": 1, "b": 2}), call("add", {"a": 2, "b": 2})],
        hooks={"pre_tool_use": [slow]},
    )
    async with Client(options) as client:
        await client.query("?")
        await trio.sleep(1)
        await client.interrupt()
        assert not calls_of(await read(client))
        tool_results = [str(m["content"]) for m in client.history if m["role"] == "tool"]
        assert ["interrupt" in one for one in tool_results] == [True, True]


async def test_result_records_belong_to_asking_run() -> None:
    async def look(event: PostToolUseEvent) -> HookDecision:
        return HookDecision(modified_output="changed", reason="tidy")

    store = MemoryStore()
    options, _ = agent(ONE_SUM, hooks={"post_tool_use": [look]})
    async with open_runtime(store=store) as runtime:
        watched: list[object] = []

        async def watch(event: object) -> None:
            watched.append(event)

        with runtime.subscribe(watch, ToolResult):
            async with Client(options, runtime=runtime) as client:
                (use,) = calls_of(await ask(client, "?"))
                assert client.result is not None
                await client.add_tool_result(use.id, "3")
        records = await store.load(client.session_id, after_seq=0)
    assert [type(record) for record in records[-3:]] == [ResultEvent, HookEvent, ToolResult]
    ours = [record for record in records[-3:] if isinstance(record, HookEvent | ToolResult)]
    assert {record.run_id for record in ours} == {client.result.run_id}
    assert watched == [records[-1]]


@pytest.mark.feature("OAS-039")
async def test_hooks_fire_in_query_too() -> None:
    options, _ = agent(ONE_SUM, hooks=ALL)
    async with query("1 + 2?", options) as messages:
        async for _message in messages:
            pass
    assert seen == ["prompt 1 + 2?", "before add"]


async def test_hooks_see_the_history_that_was_set() -> None:
    heard: list[object] = []

    async def look(event: UserPromptSubmitEvent) -> None:
        heard.append([message["content"] for message in event.history])

    options, _ = agent("One.", "Two.", hooks={"user_prompt_submit": [look]})
    async with Client(options) as client:
        await ask(client, "First?")
        client.message_history = [{"role": "user", "content": "Other."}]
        await ask(client, "Second?")
    assert heard == [[], ["Other."]]

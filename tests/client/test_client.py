"""A client whose caller carries out the tools: turns, calls, results, and the history."""

from typing import TYPE_CHECKING

import pytest
from trio.testing import wait_all_tasks_blocked

from agent_actors import (
    AgentOptions,
    Client,
    ClientError,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolOutput,
    ToolResultBlock,
    ToolUseError,
    open_runtime,
    query,
)
from agent_actors.domain.events import ToolResult, ToolUse
from agent_actors.errors import (
    ConfigError,
    MessageError,
    ProviderConnectError,
    SessionError,
    TurnLimitReached,
)
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import Turn, call, fail, say, think
from tests.client.helpers import ONE_SUM, add, agent, ask, calls_of, read, roles, shown
from tests.runs.helpers import check_history, check_quiet

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.feature("OAS-005", "OAS-006", "OAS-007")
def test_manual_mode_is_default_with_limits() -> None:
    options, _ = agent("x")
    assert (options.auto_execute_tools, options.max_tool_iterations) == (False, 5)
    assert options.max_turns is None


def test_invalid_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_tool_iterations must not be negative; got -1"):
        agent("x", max_tool_iterations=-1)
    with pytest.raises(ConfigError, match=r"max_turns must be at least 1, or None .*; got 0"):
        agent("x", max_turns=0)


@pytest.mark.feature("OAS-034")
def test_duplicate_tool_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="'add'"):
        AgentOptions(model="m", provider=object(), tools=[add, add])


@pytest.mark.feature("OAS-040", "OAS-041", "OAS-044", "OAS-068", "OAS-053", "OAS-054")
async def test_call_is_yielded_and_result_sent() -> None:
    options, model = agent(ONE_SUM, "It is 3.")
    async with Client(options) as client:
        blocks = await ask(client, "1 + 2?")
        assert shown(blocks) == ["text Let m", "text e see.", "use add"]
        (use,) = calls_of(blocks)
        assert use.input == {"a": 1, "b": 2}
        await client.add_tool_result(use.id, await add.execute(use.input))
        await client.continue_turn()
        assert await read(client) == [TextBlock("It is 3.")]
    (result,) = model.requests[1].messages[-1].blocks
    assert result == ToolResultBlock(use.id, {"sum": 3}, name="add")
    assert roles(model.requests[1]) == ["user", "assistant", "tool"]


@pytest.mark.feature("OAS-042")
@pytest.mark.parametrize("go_on", ["query", "continue_turn"])
async def test_empty_prompt_continues_the_conversation(go_on: str) -> None:
    options, model = agent(ONE_SUM, "It is 3.")
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "1 + 2?"))
        await client.add_tool_result(use.id, "3")
        await (client.query("") if go_on == "query" else client.continue_turn())
        await read(client)
        assert roles(model.requests[1]) == ["user", "assistant", "tool"]
        assert [message["role"] for message in client.history] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]


@pytest.mark.feature("OAS-052", "OAS-053")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("as it is", "as it is"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ([1, "b"], '[1, "b"]'),
        (3.5, "3.5"),
        (True, "true"),
        (None, ""),
        (ToolOutput("said", data={"kept": 1}), "said"),
    ],
)
async def test_tool_return_value_becomes_text_or_json(content: object, expected: str) -> None:
    options, _ = agent(ONE_SUM)
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "1 + 2?"))
        await client.add_tool_result(use.id, content)
        assert client.history[-1] == {
            "role": "tool",
            "content": expected,
            "tool_call_id": use.id,
            "name": "add",
        }


async def test_non_json_result_keeps_call_open() -> None:
    options, _ = agent(ONE_SUM)
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "1 + 2?"))
        with pytest.raises(TypeError, match="object"):
            await client.add_tool_result(use.id, object())
        await client.add_tool_result(use.id, "mended", "add", is_error=True)
    store = client.history
    assert store[-1]["content"] == "mended"


async def test_wrong_results_are_errors() -> None:
    options, _ = agent([call("add", {"a": 1, "b": 2}, id="one"), call("add", {"a": 1, "b": 3})])
    async with Client(options) as client:
        await ask(client, "1 + 2?")
        with pytest.raises(ClientError, match="is for tool 'add', not 'sub'"):
            await client.add_tool_result("one", "3", name="sub")
        await client.add_tool_result("one", "3", name="add")
        with pytest.raises(ClientError, match="'one' already has a result; open calls: call_1_1"):
            await client.add_tool_result("one", "4")
        with pytest.raises(ClientError, match="'two' does not exist; open calls: call_1_1"):
            await client.add_tool_result("two", "4")
        await client.add_tool_result("call_1_1", "4")
        with pytest.raises(ClientError, match="open calls: none"):
            await client.add_tool_result("call_1_1", "4")
        assert [m["content"] for m in client.history if m["role"] == "tool"] == ["3", "4"]


async def test_resume_requires_every_result() -> None:
    options, model = agent(ONE_SUM, "Never mind.")
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "1 + 2?"))
        with pytest.raises(ClientError, match=rf"no result: add \({use.id}\)"):
            await client.continue_turn()
        assert len(model.requests) == 1
        await client.add_tool_result(use.id, "3")
        await client.continue_turn()
        await read(client)


async def test_nothing_to_resume_before_first_prompt() -> None:
    async with Client(agent("x")[0]) as client:
        with pytest.raises(ClientError, match="nothing to continue"):
            await client.query("")
        with pytest.raises(ClientError, match="nothing to receive"):
            client.receive_messages()
        with pytest.raises(ConfigError, match="blank"):
            await client.query("  ")


async def test_new_prompt_closes_open_calls() -> None:
    options, model = agent(ONE_SUM, "Fine.")
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        async with Client(options, runtime=runtime) as client:
            (use,) = calls_of(await ask(client, "1 + 2?"))
            assert shown(await ask(client, "Forget it.")) == ["text Fine."]
            with pytest.raises(ClientError, match="has a result"):
                await client.add_tool_result(use.id, "3")
        records = await store.load(client.session_id, after_seq=0)
        check_quiet(runtime)
    assert roles(model.requests[1]) == ["user", "assistant", "tool", "user"]
    results = [r for r in records if isinstance(r, ToolResult)]
    assert [(r.tool_use_id, r.is_error, r.synthetic) for r in results] == [(use.id, True, True)]
    assert len([r for r in records if isinstance(r, ToolUse)]) == 1
    check_history(model.requests[1].messages)


async def test_impossible_call_is_an_immediate_error() -> None:
    options, model = agent(
        [call("add", "{broken"), call("nope", {}), call("add", {"a": "x", "b": 1})], "Sorry."
    )
    async with Client(options) as client:
        blocks = await ask(client, "1 + 2?")
    assert shown(blocks) == ["error add", "error nope", "error add", "text Sorry."]
    errors = [block for block in blocks if isinstance(block, ToolUseError)]
    assert [error.raw_data for error in errors] == ["{broken", "{}", '{"a":"x","b":1}']
    assert "unknown tool 'nope'" in errors[1].error
    assert roles(model.requests[1]) == ["user", "assistant", "tool", "tool", "tool"]


async def test_broken_call_does_not_delay_complete_call() -> None:
    options, model = agent([call("nope", {}), call("add", {"a": 1, "b": 2})], "It is 3.")
    async with Client(options) as client:
        blocks = await ask(client, "1 + 2?")
        assert shown(blocks) == ["error nope", "use add"]
        assert len(model.requests) == 1
        assert client.result is not None
        assert client.result.stop_reason == StopReason.AWAITING_RESULTS
        await client.add_tool_result(calls_of(blocks)[0].id, "3")
        await client.continue_turn()
        await read(client)
    check_history(model.requests[1].messages)


async def test_thinking_streams_before_text() -> None:
    options, _ = agent([think("Hmm, well.", chunks=2), say("Yes.")])
    async with Client(options) as client:
        assert shown(await ask(client, "?")) == ["thinks Hmm, ", "thinks well.", "text Yes."]


@pytest.mark.feature("OAS-050", "OAS-058")
async def test_turns_are_counted_as_they_are_read() -> None:
    async with Client(agent("One.", "Two.")[0]) as client:
        assert (client.turn_count, client.turn_metadata) == (0, {"turn_count": 0})
        await client.query("?")
        assert client.turn_count == 0
        await read(client)
        assert client.turn_count == 1
        await ask(client, "?")
        assert client.turn_metadata == {"turn_count": 2}


@pytest.mark.feature("OAS-051", "OAS-007")
async def test_max_turns_ends_with_clear_error() -> None:
    options, model = agent("One.", "Two.", max_turns=1)
    async with Client(options) as client:
        await ask(client, "?")
        with pytest.raises(TurnLimitReached, match="its 1 turns") as caught:
            await client.query("?")
        assert caught.value.max_turns == 1
        assert len(model.requests) == 1
        with pytest.raises(TurnLimitReached):
            await client.continue_turn()


@pytest.mark.feature("OAS-055")
async def test_the_history_is_a_copy() -> None:
    async with Client(agent("One.")[0]) as client:
        await ask(client, "?")
        client.history.clear()
        client.history[0]["content"] = "other"
        assert client.history == [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "One."},
        ]
    assert len(client.history) == 2, "the history is readable after leaving"


@pytest.mark.feature("OAS-056")
async def test_assigned_history_is_sent_and_kept() -> None:
    options, model = agent("One.", "Two.", "Three.")
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        async with Client(options, runtime=runtime) as client:
            await ask(client, "First?")
            kept = client.message_history[-1:]
            client.message_history = kept
            assert client.history == kept
            await ask(client, "Second?")
            sent = [(m.role, m.content) for m in model.requests[1].messages]
            assert sent == [("assistant", "One."), ("user", "Second?")]
            assert [m["content"] for m in client.history] == ["One.", "Second?", "Two."]
            client.message_history = []
            assert client.history == []
            await ask(client, "Third?")
            assert [m.content for m in model.requests[2].messages] == ["Third?"]
        history = runtime.history(client.session_id)
        assert history is not None
        assert [m.content for m in history] == ["Third?", "Three."]


async def test_assigned_history_is_not_shown_again() -> None:
    options, _ = agent(ONE_SUM, "3.", "Two.", "Three.", auto_execute_tools=True)
    async with Client(options) as client:
        first = await ask(client, "1 + 2?")
        assert shown(first)[-1] == "text 3."
        client.message_history = client.history
        assert shown(await ask(client, "And?")) == ["text Two."]
        client.message_history = [*client.history, {"role": "user", "content": "And more?"}]
        await client.continue_turn()
        assert shown(await read(client)) == ["text Three."]


async def test_unchanged_messages_keep_their_hidden_fields() -> None:
    use: Turn = [think("Hm.", signature="seal"), call("add", {"a": 1, "b": 2})]
    options, model = agent(use, "3.", "Two.", auto_execute_tools=True)
    async with Client(options) as client:
        await ask(client, "1 + 2?")
        client.message_history = [{"role": "user", "content": "Add."}, *client.history[1:]]
        await ask(client, "And?")
    sent = model.requests[2].messages
    assert [message.role for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[0].content == "Add."
    assert sent[1].blocks[0] == ThinkingBlock("Hm.", "seal")


async def test_calls_of_assigned_history_can_be_answered() -> None:
    options, model = agent("It is 3.")
    asked = {
        "id": "c1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
    }
    history: list[dict[str, object]] = [
        {"role": "user", "content": "1 + 2?"},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
    ]
    async with Client(options) as client:
        client.message_history = history
        await client.add_tool_result("c1", "3")
        await client.continue_turn()
        await read(client)
    assert roles(model.requests[0]) == ["user", "assistant", "tool"]
    check_history(model.requests[0].messages)


@pytest.mark.feature("OAS-057")
async def test_leading_system_message_replaces_prompt() -> None:
    options, model = agent("One.", "Two.", "Three.", system_prompt="Be brief.")
    async with Client(options) as client:
        await ask(client, "?")
        head: Mapping[str, object] = {"role": "system", "content": "Be long."}
        longer: list[Mapping[str, object]] = [head, *client.history]
        client.message_history = longer
        assert client.history[0] == {"role": "system", "content": "Be long."}
        await ask(client, "?")
        client.message_history = client.history[1:]
        await ask(client, "?")
    prompts = [request.system_prompt for request in model.requests]
    assert prompts == ["Be brief.", "Be long.", "Be brief."]
    assert all("system" not in roles(request) for request in model.requests)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "robot", "content": "hi"},
        {"role": "system", "content": "late"},
        {"role": "user", "content": ""},
        {"role": "user", "content": 7},
    ],
)
async def test_invalid_history_is_refused_without_change(
    message: dict[str, object],
) -> None:
    async with Client(agent("One.")[0]) as client:
        await ask(client, "?")
        before = client.history
        history: list[dict[str, object]] = [{"role": "user", "content": "hi"}, message]
        with pytest.raises(MessageError, match="message 1"):
            client.message_history = history
        assert client.history == before


async def test_turn_can_be_retried_after_error() -> None:
    broke = ProviderConnectError("it broke", endpoint="scripted")
    options, model = agent([say("Hel"), fail(broke)], "Hello.")
    async with Client(options) as client:
        await client.query("?")
        with pytest.raises(ProviderConnectError) as caught:
            await read(client)
        assert caught.value is broke
        assert client.result is None
        await client.continue_turn()
        assert shown(await read(client)) == ["text Hello."]
    assert roles(model.requests[1]) == ["user"]


@pytest.mark.feature("OAGS-092")
async def test_resumed_session_has_history_and_calls() -> None:
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        options, model = agent(ONE_SUM, "It is 3.")
        async with Client(options, runtime=runtime, session_id="s") as client:
            (use,) = calls_of(await ask(client, "1 + 2?"))
        async with Client(options, runtime=runtime, resume="s") as client:
            assert client.session_id == "s"
            await client.add_tool_result(use.id, "3")
            await client.query("")
            assert shown(await read(client)) == ["text It is 3."]
        check_history(model.requests[1].messages)
        assert roles(model.requests[1]) == ["user", "assistant", "tool"]


@pytest.mark.feature("OAGS-092")
async def test_options_may_name_resumed_session() -> None:
    options, model = agent("One.", "Two.", "Three.", "Four.", "Five.")
    again = options.evolve(resume="s")
    async with open_runtime() as runtime:
        for missing in (runtime.run("Go.", again), Client(again, runtime=runtime).__aenter__()):
            with pytest.raises(SessionError, match="session 's': there is nothing to resume"):
                await missing
        assert await runtime.sessions.info("s") is None
        await runtime.run("1", options, session_id="s")
        assert (await runtime.run("2", again)).session_id == "s"
        assert (await runtime.run("?", again, session_id="other")).session_id == "other"
        async with Client(again, runtime=runtime) as client:
            await ask(client, "3")
            assert client.session_id == "s"
        async with query("4", again) as messages:
            _ = [message async for message in messages]
        assert roles(model.requests[-1]) == [*["user", "assistant"] * 3, "user"]
    with pytest.raises(ConfigError, match="AgentOptions: resume: "):
        options.evolve(resume="a\nb")


async def test_resuming_client_lists_waiting_calls() -> None:
    options, model = agent([call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4})], "Done.")
    async with open_runtime() as runtime:
        async with Client(options, runtime=runtime, session_id="s") as first:
            assert first.open_calls == ()
            await first.query("Sums?")
            # Until its run has ended, but no reader has seen the end.
            await wait_all_tasks_blocked()
            assert first.open_calls == (), "a turn is in progress"
            blocks = await read(first)
            assert first.open_calls == tuple(calls_of(blocks))
        assert first.open_calls == tuple(calls_of(blocks)), "the calls stay open after leaving"
        async with Client(options, runtime=runtime, resume="s") as second:
            for use in second.open_calls:
                await second.add_tool_result(use.id, await add.execute(use.input))
                assert use not in second.open_calls
            assert await ask(second, "") == [TextBlock("Done.")]
    expected = [message.blocks[0] for message in model.requests[1].messages[-2:]]
    assert [one.content for one in expected if isinstance(one, ToolResultBlock)] == [
        {"sum": 3},
        {"sum": 7},
    ]


@pytest.mark.parametrize("name", ["a\nb", "x" * 300])
def test_invalid_session_id_is_refused_early(name: str) -> None:
    options, _ = agent("x")
    with pytest.raises(ConfigError, match="a session id"):
        Client(options, session_id=name)
    with pytest.raises(ConfigError, match="a session id"):
        Client(options, resume=name)


async def test_unresumable_session_fails_on_entry() -> None:
    options, _ = agent("x")
    async with open_runtime() as runtime:
        with pytest.raises(SessionError, match="'s': there is nothing to resume"):
            async with Client(options, runtime=runtime, resume="s"):
                pass
        with pytest.raises(SessionError, match="nothing to resume"):
            async with Client(options, resume="s"):
                pass
    with pytest.raises(ConfigError, match="name different sessions"):
        Client(options, resume="a", session_id="b")
    Client(options, resume="a", session_id="a")


async def test_client_works_only_while_entered() -> None:
    client = Client(agent("One.")[0])
    with pytest.raises(ClientError, match="the client is not entered"):
        await client.query("?")
    with pytest.raises(ClientError, match="the client is not entered"):
        await client.interrupt()
    with pytest.raises(ClientError, match="the client is not entered"):
        _ = client.session_id
    assert client.history == []
    async with client:
        await ask(client, "?")
        with pytest.raises(ClientError, match="entered only once"):
            await client.__aenter__()
    assert client.session_id
    with pytest.raises(ClientError, match="is closed"):
        await client.query("?")
    with pytest.raises(ClientError, match="is closed"):
        await client.add_tool_result("x", "y")


async def test_a_prompt_may_hold_more_than_text() -> None:
    options, model = agent("Nice.")
    async with Client(options) as client:
        await client.query(["Look: ", TextBlock("a cat")])
        await read(client)
    assert model.requests[0].messages[0].content == "Look: a cat"

"""query(), run() and run_sync(): inside and outside a runtime, dropped, failed and refused."""

import asyncio
import gc
from collections.abc import AsyncIterable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import (
    AgentOptions,
    ClientError,
    PromptBlocked,
    QueryMessage,
    StopReason,
    TextBlock,
    ToolUseBlock,
    open_runtime,
    query,
    run,
    run_sync,
    tool,
)
from agent_actors.client.turn import ClientTurn
from agent_actors.domain.events import ResultEvent
from agent_actors.errors import ConfigError, ProviderConnectError
from agent_actors.hooks import HookDecision
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call, cancel_at_every_step, fail, hang, say
from tests.client.helpers import ONE_SUM, agent, shown
from tests.runs.helpers import check_quiet


async def texts_of(messages: AsyncIterable[QueryMessage]) -> list[str]:
    return [one async for message in messages for one in shown(message.content)]


@pytest.mark.feature("OAS-017", "OAS-035", "OAS-037", "OAS-038")
async def test_messages_are_deltas_calls_and_end() -> None:
    options, model = agent([say("Hello.", chunks=2), call("add", {"a": 1, "b": 2})])
    async with query("Hi.", options) as messages:
        found = [message async for message in messages]
        assert [one async for one in messages] == [], "the messages can be read only once"
        result = messages.result
    use = ToolUseBlock("call_1_0", "add", {"a": 1, "b": 2}, '{"a":1,"b":2}')
    assert result is not None
    assert found == [
        QueryMessage(role="assistant", content=[TextBlock("Hel")]),
        QueryMessage(role="assistant", content=[TextBlock("lo.")]),
        QueryMessage(role="assistant", content=[use]),
        QueryMessage(usage=result.usage, stop_reason=StopReason.AWAITING_RESULTS),
    ]
    assert len(model.requests) == 1


@pytest.mark.feature("OAS-036")
async def test_bare_loop_works_inside_runtime() -> None:
    options, _ = agent("Hello.")
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        asked = query("Hi.", options)
        assert await texts_of(asked) == ["text Hello."]
        assert asked.result is not None
        assert runtime.statistics().runs_started == 1
        check_quiet(runtime)
        async with query("Hi.", agent("Again.")[0]) as messages:
            assert await texts_of(messages) == ["text Again."]
        assert runtime.statistics().runs_started == 2


@pytest.mark.feature("OAS-036")
async def test_bare_loop_outside_explains_usage() -> None:
    asked = query("Hi.", agent("Hello.")[0])
    with pytest.raises(TypeError, match=r"async with query\(\.\.\.\) as messages:\n +async for"):
        await texts_of(asked)
    async with asked as messages:
        assert await texts_of(messages) == ["text Hello."]


async def test_closed_runtime_is_not_used() -> None:
    async with open_runtime() as outer:
        async with open_runtime() as inner:
            pass
        await texts_of(query("Hi.", agent("Hello.")[0]))
        assert (outer.statistics().runs_started, inner.is_open) == (1, False)
        await outer.aclose()
        with pytest.raises(TypeError):
            await texts_of(query("Hi.", agent("Hello.")[0]))


async def test_dropped_iterator_cancels_its_run(
    autojump_clock: MockClock,
) -> None:
    options, model = agent([say("One."), hang()])
    async with open_runtime() as runtime:
        async for _ in query("Hi.", options):
            break
        gc.collect()
        await wait_all_tasks_blocked()
        assert model.live == 0
        check_quiet(runtime)


async def test_iterator_dropped_in_thread_cancels_run(
    autojump_clock: MockClock,
) -> None:
    options, model = agent([say("One."), hang()])
    async with open_runtime() as runtime:
        held = [aiter(query("Hi.", options))]
        await anext(held[0])
        await trio.to_thread.run_sync(held.clear)
        await wait_all_tasks_blocked()
        assert model.live == 0
        check_quiet(runtime)


def test_iterator_may_outlive_its_trio_run() -> None:
    held: list[object] = []

    async def main() -> None:
        options, _ = agent([say("One."), hang()])
        async with open_runtime(drain=0):
            messages = aiter(query("Hi.", options))
            await anext(messages)
            held.append(messages)

    trio.run(main)
    held.clear()
    gc.collect()


async def test_unstarted_iterator_leaves_nothing() -> None:
    async with open_runtime() as runtime:
        aiter(query("Hi.", agent("x")[0]))
        assert runtime.statistics().runs_started == 0


async def test_leaving_early_ends_the_run(autojump_clock: MockClock) -> None:
    options, model = agent([say("One."), hang()])
    async with query("Hi.", options) as messages:
        async for _ in messages:
            break
    assert model.live == 0
    assert messages.result is None
    assert query("Hi.", options).result is None


async def test_a_query_is_one_run() -> None:
    asked = query("Hi.", agent("One.", "Two.")[0])
    async with asked as messages:
        assert aiter(asked) is messages
        await texts_of(asked)
        with pytest.raises(ClientError, match="used only once"):
            await asked.__aenter__()
    with pytest.raises(ClientError, match="used only once"):
        await asked.__aenter__()


async def test_failed_start_leaves_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(turn: ClientTurn, *, admitted: bool) -> None:
        raise ProviderConnectError("no", endpoint="e")

    monkeypatch.setattr(ClientTurn, "begin", fails)
    asked = query("Hi.", agent("x")[0])
    with pytest.raises(ProviderConnectError):
        await asked.__aenter__()
    assert asked._owned is not None
    assert not asked._owned.is_open


async def test_automatic_agent_runs_its_tools() -> None:
    options, _ = agent(ONE_SUM, "It is 3.", auto_execute_tools=True)
    async with query("1 + 2?", options) as messages:
        found = await texts_of(messages)
    assert found[2:] == ["use add", "result add", "text It is 3."]


async def test_errors_are_unwrapped_everywhere(autojump_clock: MockClock) -> None:
    broke = ProviderConnectError("it broke", endpoint="scripted")

    async def entered() -> None:
        async with query("Hi.", agent([say("Hel"), fail(broke)])[0]) as messages:
            await texts_of(messages)

    async def unread() -> None:
        async with query("Hi.", agent(fail(broke))[0]):
            await trio.sleep(1)

    async def bare() -> None:
        async with open_runtime():
            await texts_of(query("Hi.", agent(fail(broke))[0]))

    for use in (entered, unread, bare):
        with pytest.raises(ProviderConnectError) as caught:
            await use()
        assert caught.value is broke


async def test_a_refused_prompt_raises_with_the_reason() -> None:
    async def guard(event: object) -> HookDecision:
        return HookDecision(continue_=False, reason="no")

    options, model = agent("x", hooks={"user_prompt_submit": [guard]})
    async with query("Hi.", options) as messages:
        with pytest.raises(PromptBlocked, match=r"^no$"):
            await texts_of(messages)
    assert model.requests == []


def test_empty_prompt_is_refused_early() -> None:
    with pytest.raises(ConfigError, match="blank"):
        query(" ", agent("x")[0])


async def ask_alone() -> None:
    async with query("1 + 2?", agent([say("One.", chunks=3)])[0]) as messages:
        await texts_of(messages)


def test_cancel_at_any_step_leaves_no_task() -> None:
    assert cancel_at_every_step(ask_alone) > 5


# run() and run_sync().


async def test_run_returns_response_after_tools() -> None:
    options, _ = agent(ONE_SUM, "It is 3.")
    result = await run("1 + 2?", options)
    assert (result.text, result.stop_reason) == ("It is 3.", StopReason.COMPLETED)
    assert [one.name for one in result.tool_calls] == ["add"]


async def test_run_uses_the_surrounding_runtime() -> None:
    inner, _ = agent("Inner.")
    store = MemoryStore()

    @tool
    async def delegate() -> str:
        """Ask another agent."""
        return (await run("Well?", inner)).text

    options, _ = agent(call("delegate", {}), "Outer.", tools=[delegate])
    async with open_runtime(store=store) as runtime:
        result = await run("Go.", options)
        assert runtime.statistics().runs_started == 2
        assert result.tool_calls[0].content == "Inner."
        records = await store.load(result.session_id, after_seq=0)
        assert isinstance(records[-1], ResultEvent)


def test_run_sync_is_for_scripts() -> None:
    assert run_sync("Hi.", agent("Hello.")[0]).text == "Hello."


def test_run_sync_passes_errors_bare() -> None:
    broke = ProviderConnectError("it broke", endpoint="scripted")
    with pytest.raises(ProviderConnectError) as caught:
        run_sync("Hi.", agent(fail(broke))[0])
    assert caught.value is broke


async def test_run_sync_inside_trio_explains_usage() -> None:
    with pytest.raises(RuntimeError, match=r"inside trio.*await run"):
        run_sync("Hi.", agent("x")[0])


def test_run_sync_inside_asyncio_explains_usage() -> None:
    async def main() -> str:
        with pytest.raises(RuntimeError, match=r"inside asyncio.*agent_actors\.asyncio"):
            run_sync("Hi.", agent("x")[0])
        return (await asyncio.to_thread(run_sync, "Hi.", agent("Hello.")[0])).text

    assert asyncio.run(main()) == "Hello."


async def test_run_sync_works_in_worker_thread() -> None:
    async with open_runtime() as runtime:
        result = await trio.to_thread.run_sync(run_sync, "Hi.", agent("Hello.")[0])
        assert runtime.statistics().runs_started == 0
    assert result.text == "Hello."


def test_run_sync_without_asyncio_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("sys").modules, "asyncio")
    options = AgentOptions(model="m", provider=ScriptedModel(["Hello."]))
    assert run_sync("Hi.", options).text == "Hello."

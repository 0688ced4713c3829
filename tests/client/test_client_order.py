"""The order of a client's calls; leaving a turn, interrupting it, and cancelling any call."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import AgentOptions, Client, ClientError, Runtime, StopReason, open_runtime, tool
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import Event, ToolResult, ToolUse
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ProviderConnectError, RuntimeClosed, SessionBusy
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import (
    ScriptedModel,
    StepOutcome,
    Turn,
    call,
    cancel_at_every_step,
    fail,
    hang,
    pause,
    say,
)
from tests.client.helpers import ONE_SUM, add, agent, ask, calls_of, read, roles, shown
from tests.runs.helpers import check_history, check_quiet
from tests.sweeps import STRIDE


async def leave_unread(client: Client, error: Exception | None = None) -> None:
    async with client:
        await client.query("?")
        await trio.sleep(1)
        if error is not None:
            raise error


async def test_concurrent_tasks_are_refused(
    autojump_clock: MockClock,
) -> None:
    options, model = agent([say("One."), pause(5), say("More.")], "Two.")
    blocks: list[str] = []
    async with Client(options) as client, trio.open_nursery() as nursery:

        async def first() -> None:
            blocks.extend(shown(await ask(client, "First?")))

        nursery.start_soon(first)
        await trio.sleep(1)
        with pytest.raises(ClientError, match=r"while another task is in receive_messages\(\)"):
            await client.query("Second?")
        with pytest.raises(ClientError, match="a turn can have only one reader"):
            await read(client)
        with pytest.raises(ClientError, match="a turn is in progress"):
            await client.add_tool_result("x", "y")
        with pytest.raises(ClientError, match="a turn is in progress"):
            client.message_history = []
    assert blocks == ["text One.", "text More."]
    assert len(model.requests) == 1
    assert [m["content"] for m in client.history] == ["First?", "One.More."]


async def test_next_turn_waits_for_earlier_reading() -> None:
    options, model = agent(call("add", {"a": 1, "b": 2}), "It is 3.")
    async with Client(options) as client:
        await client.query("1 + 2?")
        blocks: list[str] = []
        async for block in client.receive_messages():
            blocks += shown([block])
            assert isinstance(block, ToolUseBlock)
            await client.add_tool_result(block.id, "3")
            await client.query("")
        assert blocks == ["use add"]
        assert shown(await read(client)) == ["text It is 3."]
    assert roles(model.requests[1]) == ["user", "assistant", "tool"]


async def test_unread_turn_belongs_to_its_task(
    autojump_clock: MockClock,
) -> None:
    options, _ = agent("One.", "Two.")
    async with Client(options) as client:
        await client.query("First?")
        async with trio.open_nursery() as nursery:

            async def second() -> None:
                with pytest.raises(ClientError, match="has a turn in progress"):
                    await client.query("Second?")

            nursery.start_soon(second)
        assert shown(await read(client)) == ["text One."]


async def test_one_task_may_ask_and_another_read(autojump_clock: MockClock) -> None:
    options, _ = agent("One.", "Two.")
    found: list[str] = []
    async with Client(options) as client:
        for prompt in ("First?", "Second?"):
            await client.query(prompt)
            async with trio.open_nursery() as nursery:

                async def reader() -> None:
                    found.extend(shown(await read(client)))

                nursery.start_soon(reader)
    assert found == ["text One.", "text Two."]


async def test_a_query_while_another_begins_is_refused(autojump_clock: MockClock) -> None:
    entered = trio.Event()

    async def slow(event: object) -> None:
        entered.set()
        await trio.sleep(3)

    options, _ = agent("One.", hooks={"user_prompt_submit": [slow]})
    async with Client(options) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.query, "First?")
        await entered.wait()
        with pytest.raises(ClientError, match=r"another task is in query\(\)"):
            await client.query("Second?")


async def test_new_query_ends_an_unread_turn(
    autojump_clock: MockClock,
) -> None:
    options, model = agent([say("One."), hang()], "Two.")
    async with open_runtime() as runtime, Client(options, runtime=runtime) as client:
        await client.query("First?")
        left = client.receive_messages()
        async for _ in left:
            break
        assert shown(await ask(client, "Second?")) == ["text Two."]
        assert [block async for block in left] == [], "no blocks of another turn"
        assert client.result is not None
        assert client.result.text == "Two."
        check_quiet(runtime)
    assert roles(model.requests[1]) == ["user", "user"]


async def test_unread_failure_is_raised_on_exit(
    autojump_clock: MockClock,
) -> None:
    broke = ProviderConnectError("it broke", endpoint="scripted")
    options, _ = agent(fail(broke), "Two.", fail(broke))
    async with Client(options) as client:
        await client.query("First?")
        await trio.sleep(1)
        with pytest.raises(ProviderConnectError) as caught:
            await client.query("Second?")
        assert caught.value is broke
        assert shown(await ask(client, "Second?")) == ["text Two."]
    with pytest.raises(ProviderConnectError) as caught:
        await leave_unread(Client(agent(fail(broke))[0]))
    assert caught.value is broke


async def test_body_error_carries_turn_error_as_note(
    autojump_clock: MockClock,
) -> None:
    error = ValueError("mine")
    broken = agent(fail(ProviderConnectError("it broke", endpoint="e")))[0]
    with pytest.raises(ValueError, match="mine") as caught:
        await leave_unread(Client(broken), error)
    assert caught.value is error
    assert error.__notes__ == ["and the run failed: ProviderConnectError: e: it broke"]


async def test_exit_ends_turn_and_own_runtime(
    autojump_clock: MockClock,
) -> None:
    options, model = agent([say("One."), hang()])
    async with Client(options) as client:
        await client.query("?")
        owned = client._owned
    assert owned is not None
    assert not owned.is_open
    assert model.live == 0
    assert client.history[0] == {"role": "user", "content": "?"}


async def test_closed_runtime_is_reported_by_client() -> None:
    options, _ = agent("One.")
    async with open_runtime() as runtime, Client(options, runtime=runtime) as client:
        await runtime.aclose()
        with pytest.raises(RuntimeClosed):
            await client.query("?")
    with pytest.raises(RuntimeClosed):
        async with Client(options, runtime=runtime):
            pass


async def test_session_of_another_run_is_busy(autojump_clock: MockClock) -> None:
    options, _ = agent(ONE_SUM, [pause(5), say("Later.")])
    async with (
        open_runtime() as runtime,
        Client(options, runtime=runtime, session_id="s") as client,
    ):
        (use,) = calls_of(await ask(client, "?"))
        async with runtime.stream("Other.", options, session_id="s"):
            with pytest.raises(SessionBusy):
                await client.add_tool_result(use.id, "3")
            with pytest.raises(SessionBusy):
                await client.query("?")


# Interrupts.


async def test_interrupt_leaves_valid_history(
    autojump_clock: MockClock,
) -> None:
    options, model = agent([say("One."), hang()], "Two.")
    blocks: list[str] = []
    async with Client(options) as client, trio.open_nursery() as nursery:

        async def reader() -> None:
            blocks.extend(shown(await ask(client, "?")))

        nursery.start_soon(reader)
        await trio.sleep(1)
        await client.interrupt()
        assert model.live == 0, "the run has ended when the call returns"
        await wait_all_tasks_blocked()
        assert blocks == ["text One."]
        assert client.result is not None
        assert client.result.stop_reason == StopReason.INTERRUPTED
        assert shown(await ask(client, "Again.")) == ["text Two."]


async def test_interrupt_inside_loop_ends_it(autojump_clock: MockClock) -> None:
    options, _ = agent([say("One."), say("Two."), hang()])
    async with Client(options) as client:
        await client.query("?")
        count = 0
        async for _ in client.receive_messages():
            count += 1
            await client.interrupt()
        assert count == 1


async def test_interrupt_during_tools_leaves_results(
    autojump_clock: MockClock,
) -> None:
    ended: list[str] = []

    @tool
    async def slow() -> None:
        """Take forever."""
        try:
            await trio.sleep_forever()
        finally:
            ended.append("slow")

    both = [call("slow", {}), call("add", {"a": 1, "b": 2})]
    options, _ = agent(both, "x", tools=[slow], auto_execute_tools=True)
    async with Client(options) as client, trio.open_nursery() as nursery:
        nursery.start_soon(ask, client, "?")
        await trio.sleep(1)
        await client.interrupt()
        assert ended == ["slow"]
        assert [m["role"] for m in client.history] == ["user", "assistant", "tool", "tool"]


async def test_interrupt_between_turns_closes_open_calls() -> None:
    options, _ = agent(ONE_SUM, "Fine.")
    async with Client(options) as client:
        await client.interrupt()
        (use,) = calls_of(await ask(client, "?"))
        await client.interrupt()
        assert "interrupted" in str(client.history[-1]["content"])
        with pytest.raises(ClientError, match="has a result"):
            await client.add_tool_result(use.id, "3")
        await client.continue_turn()
        assert shown(await read(client)) == ["text Fine."]
        await client.interrupt()


async def test_interrupt_closes_calls_of_assigned_history() -> None:
    options, model = agent(ONE_SUM, "Fine.", "Fine.")
    async with Client(options) as client:
        await ask(client, "?")
        client.message_history = client.history[:2]
        await client.interrupt()
        assert "interrupted" in str(client.history[-1]["content"])
        await client.continue_turn()
        await read(client)
    assert roles(model.requests[1]) == ["user", "assistant", "tool"]


async def test_interrupt_after_turn_keeps_it_readable(
    autojump_clock: MockClock,
) -> None:
    options, _ = agent("One.")
    async with Client(options) as client:
        await client.query("?")
        await trio.sleep(1)
        await client.interrupt()
        assert shown(await read(client)) == ["text One."]


async def test_interrupt_during_prompt_hook(
    autojump_clock: MockClock,
) -> None:
    async def slow(event: object) -> None:
        await trio.sleep(50)

    options, model = agent("x", hooks={"user_prompt_submit": [slow]})
    async with Client(options) as client, trio.open_nursery() as nursery:

        async def asker() -> None:
            await client.query("?")
            assert await read(client) == []

        nursery.start_soon(asker)
        await trio.sleep(1)
        await client.interrupt()
        await wait_all_tasks_blocked()
        assert trio.current_time() < 40
    assert model.requests == []


# Concurrent results, and cancellation.


class SlowStore(MemoryStore):
    """A store whose writes take a second."""

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        await trio.sleep(1)
        return await super().append(batch)


@pytest.mark.parametrize("tasks", [2, 8])
async def test_tasks_may_add_results_at_once(autojump_clock: MockClock, tasks: int) -> None:
    async def slow(event: object) -> None:
        await trio.sleep(1)

    options, model = agent(
        [call("add", {"a": n, "b": 0}) for n in range(tasks)],
        "Done.",
        hooks={"post_tool_use": [slow]},
    )
    async with (
        open_runtime(store=SlowStore()) as runtime,
        Client(options, runtime=runtime) as client,
    ):
        uses = calls_of(await ask(client, "?"))
        async with trio.open_nursery() as nursery:
            for use in uses:
                nursery.start_soon(client.add_tool_result, use.id, use.input)
            await wait_all_tasks_blocked()
            with pytest.raises(ClientError, match="is already being added"):
                await client.add_tool_result(uses[0].id, "twice")
            with pytest.raises(ClientError, match="is still being added"):
                await client.continue_turn()
        await client.continue_turn()
        await read(client)
    check_history(model.requests[1].messages)
    assert roles(model.requests[1]).count("tool") == tasks


def is_service(task: trio.lowlevel.Task) -> bool:
    """Return whether this is a sweeper of the runtime, which the cancelled code starts."""
    return task.name.endswith("ActorLoop._background")


@attrs.frozen
class _Around:
    runtime: Runtime
    store: MemoryStore


@asynccontextmanager
async def around() -> AsyncGenerator[_Around]:
    store = MemoryStore()
    async with open_runtime(store=store) as runtime:
        yield _Around(runtime, store)


def conversation() -> AgentOptions:
    def answer(request: ModelRequest) -> Turn:
        return ONE_SUM if request.messages[-1].role == "user" else "It is 3."

    return AgentOptions(model="m", provider=ScriptedModel(answer), tools=[add], max_retries=0)


async def talk(subject: _Around) -> list[str]:
    async with Client(conversation(), runtime=subject.runtime, session_id="s") as client:
        blocks = await ask(client, "1 + 2?")
        for use in calls_of(blocks):
            await client.add_tool_result(use.id, "3")
        await client.continue_turn()
        return shown(await read(client))


async def check(step: int, outcome: StepOutcome[_Around]) -> None:
    runtime, store = outcome.subject.runtime, outcome.subject.store
    check_quiet(runtime)
    history = runtime.history("s")
    if history is not None:
        check_history(history)
    records = [r for r in await store.load("s", after_seq=0) if isinstance(r, Event)]
    used = [r.tool_use_id for r in records if isinstance(r, ToolUse)]
    results = [r for r in records if isinstance(r, ToolResult)]
    assert all(r.content for r in results), "every recorded result has content"
    answered = [r.tool_use_id for r in results]
    assert len(answered) == len(set(answered))
    assert set(answered) <= set(used)
    if not outcome.cancelled:
        assert outcome.value == ["text It is 3."]
        return
    async with Client(conversation(), runtime=runtime, session_id="s") as client:
        blocks = await ask(client, "Again: 1 + 2?")
        for use in calls_of(blocks):
            await client.add_tool_result(use.id, "3")
        await client.continue_turn()
        assert shown(await read(client)) == ["text It is 3."]
        assert client.result is not None
        check_history(client.result.messages)


def test_cancel_at_any_step_keeps_conversation() -> None:
    steps = cancel_at_every_step(
        talk, around=around, check=check, may_stay=is_service, stride=STRIDE
    )
    assert steps > 20


async def alone() -> None:
    options = conversation()
    async with Client(options) as client:
        (use,) = calls_of(await ask(client, "1 + 2?"))
        await client.add_tool_result(use.id, "3")
        await client.continue_turn()
        await read(client)


def test_cancel_at_any_step_leaves_no_task() -> None:
    assert cancel_at_every_step(alone, stride=STRIDE) > 20


async def interrupted(subject: _Around) -> None:
    async with Client(conversation(), runtime=subject.runtime, session_id="s") as client:
        await client.query("1 + 2?")
        await client.interrupt()
        await read(client)
        await client.interrupt()


async def check_interrupted(step: int, outcome: StepOutcome[_Around]) -> None:
    check_quiet(outcome.subject.runtime)
    history = outcome.subject.runtime.history("s")
    if history is not None:
        check_history(history)


def test_cancelled_interrupt_leaves_nothing() -> None:
    cancel_at_every_step(
        interrupted,
        around=around,
        check=check_interrupted,
        may_stay=is_service,
        stride=STRIDE,
    )


async def test_continued_turn_records_a_replaced_history() -> None:
    options = AgentOptions(model="m", provider=ScriptedModel(["Fine."]))
    async with Client(options) as client:
        client.message_history = [{"role": "user", "content": "Well?"}]
        await client.continue_turn()
        assert [block async for block in client.receive_messages()]
        assert [message["content"] for message in client.history] == ["Well?", "Fine."]

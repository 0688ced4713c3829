"""A client whose agent has a policy: calls are checked before they are handed out."""

import pytest
import trio
from trio.testing import MockClock

from agent_actors import (
    Client,
    ClientError,
    PermissionPolicy,
    StopReason,
    ToolUseError,
    open_runtime,
)
from agent_actors.domain.events import Event, ToolResult, ToolUse
from agent_actors.errors import SessionSuspended
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import call
from tests.client.helpers import ONE_SUM, agent, ask, calls_of, read, shown
from tests.runs.helpers import check_history, check_quiet

TWO = [call("add", {"a": 1, "b": 2}), call("broken", {})]


async def test_denied_call_is_not_yielded() -> None:
    options, _ = agent(TWO, "Fine.", permissions=PermissionPolicy(allow=["add"], deny=["broken"]))
    async with Client(options) as client:
        blocks = await ask(client, "?")
        assert shown(blocks) == ["error broken", "use add"]
        assert isinstance(blocks[0], ToolUseError)
        assert "'broken'" in blocks[0].error


async def test_approved_call_is_yielded(
    autojump_clock: MockClock,
) -> None:
    options, _ = agent(TWO, "Fine.", permissions=PermissionPolicy(ask=["add"], allow=["broken"]))
    async with open_runtime() as runtime, Client(options, runtime=runtime) as client:
        await client.query("?")
        await trio.sleep(1)
        (question,) = runtime.questions()
        runtime.answer(question.id, "yes")
        assert shown(await read(client)) == ["use add", "use broken"]
        check_quiet(runtime)


async def test_next_prompt_denies_open_question() -> None:
    store = MemoryStore()
    options, model = agent(
        TWO,
        "Fine.",
        permissions=PermissionPolicy(ask=["add"], allow=["broken"]),
        on_ask="suspend",
        on_suspended="deny",
    )
    async with open_runtime(store=store) as runtime, Client(options, runtime=runtime) as client:
        blocks = await ask(client, "?")
        assert client.result is not None
        assert client.result.stop_reason == StopReason.AWAITING_APPROVAL
        (use,) = calls_of(blocks)
        await client.add_tool_result(use.id, "carried out")
        with pytest.raises(ClientError, match="no result"):
            await client.continue_turn()
        assert shown(await ask(client, "Leave it.")) == ["text Fine."]
        records = [
            r for r in await store.load(client.session_id, after_seq=0) if isinstance(r, Event)
        ]
    used = [r.tool_use_id for r in records if isinstance(r, ToolUse)]
    answered = [r.tool_use_id for r in records if isinstance(r, ToolResult)]
    assert sorted(used) == sorted(answered)
    check_history(model.requests[1].messages)


async def test_open_question_at_end_is_reported() -> None:
    options, _ = agent(
        ONE_SUM, "Fine.", permissions=PermissionPolicy(ask=["add"]), on_ask="suspend"
    )
    async with Client(options) as client:
        await ask(client, "?")
        with pytest.raises(SessionSuspended, match=r"runtime\.resume"):
            await client.query("Leave it.")

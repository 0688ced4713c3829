"""Permission prompts of a run: they are shown at once, and a slow answer delays no other run."""

import threading
from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import UserQuestion
from agent_actors.errors import HookError
from agent_actors.hooks import PreToolUseEvent
from agent_actors.permissions import CanUseTool, PermissionPolicy, PermissionRequest
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import Turn, call, interleave
from tests.runs.hooks.helpers import USE, agent, ran, results


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


class Slow(MemoryStore):
    """A store whose writes take a second, as over a network."""

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        await trio.sleep(1)
        return await super().append(batch)


def asking(can_use_tool: CanUseTool) -> AgentOptions:
    policy = PermissionPolicy(ask=["echo"])
    return attrs.evolve(agent(*USE), permissions=policy, can_use_tool=can_use_tool)


async def says_no(request: PermissionRequest) -> bool:
    return False


async def test_question_during_recording_is_shown(
    autojump_clock: MockClock,
) -> None:
    async def later(event: PreToolUseEvent) -> None:
        if event.tool_input["text"] == "b":
            await trio.sleep(0.5)

    turn = interleave(*(call("echo", {"text": text}) for text in "ab"))
    policy = PermissionPolicy(ask=["echo"])
    options = attrs.evolve(agent(turn, "Done.", hooks={"before_tool": later}), permissions=policy)
    async with open_runtime(store=Slow()) as runtime:
        with trio.fail_after(60):
            async with runtime.stream("Go.", options) as events:
                asked: list[str] = []
                async for event in events:
                    if isinstance(event, UserQuestion):
                        asked.append(event.question_id)
                    if len(asked) == 2:
                        while asked:
                            runtime.answer(asked.pop(), "yes")
    assert sorted(ran) == ["a", "b"]


async def test_hanging_approver_threads_block_no_run() -> None:
    leave = threading.Event()

    def hang(request: PermissionRequest) -> bool:
        return leave.wait(60)

    # More than the number of threads that trio allows by default.
    many = int(trio.to_thread.current_default_thread_limiter().total_tokens) + 1
    async with open_runtime() as runtime, trio.open_nursery() as nursery:
        for _ in range(many):
            nursery.start_soon(runtime.run, "Go.", asking(hang))
        try:
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(30):
                assert (await runtime.run("Go.", asking(lambda request: True))).text == "Done."
        finally:
            leave.set()
            nursery.cancel_scope.cancel()
    assert ran == ["a"]


async def test_own_tool_may_replace_ask_tool() -> None:
    @tool(name="AskUserQuestion")
    async def own(questions: list[str]) -> str:
        """Ask in another way."""
        return f"asked {len(questions)}"

    turns: list[Turn] = [call("AskUserQuestion", {"questions": ["Which one?"]}), "Done."]
    options = attrs.evolve(agent(*turns), tools=[own])
    async with open_runtime() as runtime:
        assert results(await runtime.run("Go.", options)) == ["asked 1"]
        fresh = attrs.evolve(agent(*turns), tools=[own])
        refused = attrs.evolve(fresh, permissions="prompt", can_use_tool=says_no)
        assert "not permitted" in results(await runtime.run("Go.", refused))[0]


async def test_approver_exiting_ends_only_its_run() -> None:
    async def leave(request: PermissionRequest) -> bool:
        raise SystemExit(3)

    async with open_runtime() as runtime:
        with pytest.raises(HookError, match="raised SystemExit: 3"):
            await runtime.run("Go.", asking(leave))
        assert (await runtime.run("Go.", agent("Fine."))).text == "Fine."

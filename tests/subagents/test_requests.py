"""Requests for one of an agent's agents, and the events of agents in the stream of the parent."""

import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentDefinition, RunResult, UsageLimits, open_runtime, tool
from agent_actors.domain.events import AssistantDelta, ResultEvent
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ConfigError
from agent_actors.hooks import Hook, HookContext, HookDecision, PreToolUseEvent
from agent_actors.testing import Turn, call, say
from tests.subagents.helpers import WORKER, plan, start_once, task, team


@tool
async def look() -> str:
    """Look."""
    return "seen"


class Guard(Hook):
    """Denies every call."""

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision:
        return HookDecision(continue_=False, reason="no looking")


@pytest.mark.feature("ASDK-068")
async def test_request_may_target_an_agent() -> None:
    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        assert request.system_prompt == WORKER.prompt
        return last.content if last.role == "tool" else call("look")

    options = team(script, tools=[look], hooks=Guard(), limits=UsageLimits(requests=2))
    async with open_runtime() as runtime:
        result = await runtime.run("go", options, target_subagent="worker", session_id="s")
        async with runtime.stream("again", options, target_subagent="worker") as events:
            names = {event.agent_name async for event in events}
        snapshot = await runtime.sessions.snapshot("s")
    assert snapshot is not None
    metadata = snapshot.metadata
    assert "no looking" in result.text
    assert (result.iterations, names, metadata["agent_name"]) == (2, {"worker"}, "worker")
    assert "parent_session_id" not in metadata


async def test_target_must_be_an_agent() -> None:
    agents = {"worker": WORKER, "hand": AgentDefinition("x", handler=str)}
    async with open_runtime() as runtime:
        with pytest.raises(ConfigError, match="no agent 'cook'; Known: hand, worker"):
            await runtime.run("go", team(agents=agents), target_subagent="cook")
        with pytest.raises(ConfigError, match="has a handler instead of a model"):
            await runtime.run("go", team(agents=agents), target_subagent="hand")


@pytest.mark.parametrize("wanted", [True, False])
async def test_stream_has_events_of_agents(wanted: bool) -> None:
    async with open_runtime() as runtime:
        options = team(child_events=wanted)
        async with runtime.stream(plan([[]]), options) as events:
            seen = [event async for event in events]
        result = events.result
    calls = {event.parent_tool_use_id for event in seen if event.agent_name == "worker"}
    started = {call.id for call in result.tool_calls}
    texts = [e.session_id for e in seen if isinstance(e, AssistantDelta)]
    assert calls == (started if wanted else set())
    assert len(set(texts)) == (3 if wanted else 1)
    assert isinstance(seen[-1], ResultEvent)
    assert (seen[-1].session_id, seen[-1].agent_name) == (result.session_id, None)


async def test_slow_reader_slows_agents(autojump_clock: MockClock) -> None:
    script = start_once(task("x"), "Done.", worker=[say(*["x"] * 300)])
    async with open_runtime() as runtime:
        async with runtime.stream("go", team(script, child_events=True)) as events:
            await trio.sleep(30)
            seen = [event async for event in events]
        result: RunResult = events.result
    assert result.text == "Done."
    deltas = [e.text for e in seen if isinstance(e, AssistantDelta) and e.agent_name]
    assert "".join(deltas) == "x" * 300

"""Agents that start agents, with scripted models that follow a plan in their prompts."""

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from agent_actors import AgentDefinition, AgentOptions, RunResult
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import ModelRequest
from agent_actors.testing import ScriptedModel, Turn, call, interleave, say, usage
from agent_actors.testing.script import Call

Plan: TypeAlias = "list[Plan]"
"""The plan of an agent: the plans of the agents that it starts."""

WORKER = AgentDefinition("Does a part of the work.", "You are a worker.")


def task(prompt: str, agent: str = "worker", **more: JsonValue) -> Call:
    """Return a call of `Task`."""
    return call("Task", {"agent": agent, "prompt": prompt, **more})


def plan(*parts: Plan) -> str:
    """Return a prompt: the agent starts a worker for each part, then answers."""
    return json.dumps(parts)


def follow(request: ModelRequest) -> Turn:
    """Start a worker for each part of the plan in the prompt, then answer."""
    last = request.messages.last()
    assert last is not None
    parts = cast("list[Plan]", json.loads(last.content)) if last.role == "user" else []
    if not parts:
        return [say("Done."), usage(10, 1)]
    return [interleave(*(task(json.dumps(part)) for part in parts)), usage(10, 1)]


def team(
    script: Callable[[ModelRequest], Turn] = follow,
    agents: Mapping[str, AgentDefinition] | None = None,
    **more: object,
) -> AgentOptions:
    """Return an agent that may start workers."""
    made = cast("Callable[..., AgentOptions]", AgentOptions)
    agents = {"worker": WORKER} if agents is None else agents
    return made(model="m", provider=ScriptedModel(script), agents=agents, **more)


def start_once(*turns: Turn, worker: Turn = "Worked.") -> Callable[[ModelRequest], Turn]:
    """Return a script: the root takes its turns in order, and every worker takes the same turn."""
    left = list(turns)

    def script(request: ModelRequest) -> Turn:
        return worker if request.system_prompt == WORKER.prompt else left.pop(0)

    return script


def data_of(result: RunResult, number: int = 0) -> JsonObject:
    """Return the data of a tool result."""
    return cast(JsonObject, result.tool_calls[number].data)

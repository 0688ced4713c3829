"""Agents for `Client` and `query()`, and readers of their blocks."""

from collections.abc import Sequence

from agent_actors import AgentOptions, AnswerRestarted, Client, StreamBlock, Tool, tool
from agent_actors.domain.blocks import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.model import ModelRequest
from agent_actors.hooks import Hooks
from agent_actors.testing import ScriptedModel, Turn, call, say


@tool("add", "Add two numbers.", {"a": float, "b": float})
async def add(arguments: dict[str, float]) -> dict[str, float]:
    return {"sum": arguments["a"] + arguments["b"]}


@tool("broken", "Always fails.", {})
async def broken(arguments: JsonObject) -> str:
    raise ValueError(f"no luck with {arguments}")


ONE_SUM: Turn = [say("Let me see.", chunks=2), call("add", {"a": 1, "b": 2})]


def agent(
    *turns: Turn,
    tools: Sequence[Tool] = (add, broken),
    hooks: Hooks = (),
    **settings: object,
) -> tuple[AgentOptions, ScriptedModel]:
    """Return an agent with these turns, and its model."""
    model = ScriptedModel(turns)
    options = AgentOptions(
        model="m",
        provider=model,
        tools=tools,
        hooks=hooks,
        max_retries=0,
        **settings,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    )
    return options, model


async def read(client: Client) -> list[StreamBlock]:
    """Read a turn to its end."""
    return [block async for block in client.receive_messages()]


async def ask(client: Client, prompt: str) -> list[StreamBlock]:
    """Run a complete turn."""
    await client.query(prompt)
    return await read(client)


def shown(blocks: Sequence[StreamBlock]) -> list[str]:
    """Describe each block in a word or two."""
    return [_shown(block) for block in blocks]


def _shown(block: StreamBlock) -> str:
    match block:
        case TextBlock(text=text):
            return f"text {text}"
        case ThinkingBlock(thinking=thinking):
            return f"thinks {thinking}"
        case ToolUseBlock(name=name):
            return f"use {name}"
        case ToolUseError(name=name):
            return f"error {name}"
        case ToolResultBlock(name=name):
            return f"result {name}"
        case ImageBlock():
            return "image"
        case AnswerRestarted():
            return "restarted"


def calls_of(blocks: Sequence[StreamBlock]) -> list[ToolUseBlock]:
    """Return the calls among the blocks."""
    return [block for block in blocks if isinstance(block, ToolUseBlock)]


def roles(request: ModelRequest) -> list[str]:
    """Return the roles of the messages of a request, in order."""
    return [message.role for message in request.messages]

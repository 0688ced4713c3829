"""A user's code with clients and helpers, for the type checkers only: no cast and no ignore."""

from typing import assert_never, assert_type

from agent_actors import (
    AgentOptions,
    AnswerRestarted,
    Client,
    FaceBlock,
    ImageBlock,
    QueryMessage,
    RunResult,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
    Usage,
    open_runtime,
    query,
    run,
    run_sync,
)


class City:
    name: str


options = AgentOptions(model="m", base_url="http://localhost:1234/v1", auto_execute_tools=True)
typed = AgentOptions(model="m", base_url="http://localhost:1234/v1", output_type=City)


def show(block: FaceBlock) -> str:
    """Handle every block; a type checker reports a block that is missing."""
    match block:
        case TextBlock(text=text):
            return text
        case ThinkingBlock(thinking=thinking):
            return thinking
        case ToolUseBlock(name=name, input=arguments):
            return f"{name}({arguments})"
        case ToolUseError(error=error, raw_data=raw):
            assert_type(raw, str | None)
            return error
        case ToolResultBlock():
            return block.text
        case ImageBlock(media_type=media_type):
            return media_type
        case AnswerRestarted(reason=reason):
            return reason
        case _:
            assert_never(block)


async def talk() -> None:
    async with (
        open_runtime() as runtime,
        Client(options, runtime=runtime, session_id="s") as client,
    ):
        assert_type(client, Client)
        await client.query("Hello")
        async for block in client.receive_messages():
            assert_type(block, FaceBlock)
            show(block)
            if isinstance(block, ToolUseBlock):
                await client.add_tool_result(block.id, {"done": True}, name=block.name)
        await client.continue_turn()
        await client.interrupt()
        assert_type(client.open_calls, tuple[ToolUseBlock, ...])
        client.message_history = client.history[-10:]
        client.message_history = [{"role": "user", "content": "Hello"}]
        assert_type(client.turn_metadata, dict[str, int])
        if client.result is not None:
            assert_type(client.result.usage, Usage)
    async with Client(typed, resume="s") as client:
        assert_type(client.session_id, str)


async def ask() -> None:
    async with query("Hello", options) as messages:
        async for message in messages:
            assert_type(message, QueryMessage)
            assert_type(message.usage, Usage | None)
            for block in message.content:
                show(block)
        assert_type(messages.result, RunResult | None)
    async for message in query(["Hello", TextBlock("again")], typed):
        assert_type(message, QueryMessage)
    assert_type(await run("Hello", options), RunResult)
    assert_type((await run("Hello", typed)).output, City)


assert_type(run_sync("Hello", options).text, str)
assert_type(run_sync("Hello", typed), RunResult[City])

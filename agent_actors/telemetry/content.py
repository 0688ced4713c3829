"""Messages as JSON text, in the form that the semantic conventions for generative AI define.

Images, files and opaque blocks are represented by their type only.
"""

import json
from collections.abc import Iterable

from agent_actors.domain.blocks import (
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted


def json_text(value: JsonValue) -> str:
    """Return a value as JSON text in ASCII, so that lone surrogates can be sent."""
    return value if isinstance(value, str) and value.isascii() else json.dumps(value)


def input_messages(messages: Messages) -> str:
    """Return the value of `gen_ai.input.messages`."""
    return json.dumps(
        [{"role": message.role, "parts": _parts(message.blocks)} for message in messages]
    )


def output_messages(answer: ModelCompleted) -> str:
    """Return the value of `gen_ai.output.messages`."""
    message = {
        "role": "assistant",
        "parts": _parts(answer.blocks),
        "finish_reason": answer.finish_reason,
    }
    return json.dumps([message])


def system_instructions(text: str) -> str:
    """Return the value of `gen_ai.system_instructions`."""
    return json.dumps([{"type": "text", "content": text}])


def _parts(blocks: Iterable[ContentBlock]) -> list[JsonObject]:
    return [_part(block) for block in blocks]


def _part(block: ContentBlock) -> JsonObject:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "content": text}
        case ThinkingBlock():
            return {"type": "reasoning", "content": block.thinking}
        case ToolUseBlock():
            return {
                "type": "tool_call",
                "id": block.id,
                "name": block.name,
                "arguments": block.input,
            }
        case ToolResultBlock():
            return {
                "type": "tool_call_response",
                "id": block.tool_use_id,
                "response": block.content,
            }
        case _:
            return {"type": block.type}

"""Convert a conversation with tool calls for an endpoint that accepts only text.

Such an endpoint refuses a history that contains calls, for example from a session that began with
another endpoint. Each call and each result is replaced by a description in text. Adjacent messages
with the same role are joined, because strict templates require alternating roles. A conversation
without calls remains the same object, so that the cached encodings of its messages are reused.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from agent_actors.domain.blocks import (
    ContentBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.messages import Message, Messages
from agent_actors.domain.model import ModelRequest
from agent_actors.domain.provenance import MarkedBlock, Origin
from agent_actors.protocol.response.arguments import dump_object
from agent_actors.providers.openai_chat.media import result_text
from agent_actors.providers.openai_chat.reasoning_details import BOUND

_BETWEEN: Final = "\n\n"


def in_text_only(request: ModelRequest, target: Origin) -> ModelRequest:
    """Return the request without tools, and with its calls and results as text.

    Args:
        request: The request.
        target: The endpoint. Fields that other endpoints want back are removed before blocks are
            joined.
    """
    messages = request.messages
    if not any(_is_of_call(block) for message in messages for block in message.blocks):
        return attrs.evolve(request, tools=())
    rewritten = Messages(_merged(_rewritten(messages, target)))
    return attrs.evolve(request, tools=(), messages=rewritten, memo=EncodedMessageCache())


def _is_of_call(block: ContentBlock) -> bool:
    return isinstance(block, ToolUseBlock | ToolUseError | ToolResultBlock)


def _rewritten(messages: Iterable[Message], target: Origin) -> Iterator[Message]:
    names: dict[str, str] = {}
    for message in messages:
        blocks: list[ContentBlock] = []
        for block in message.blocks:
            if isinstance(block, ToolUseBlock):
                names[block.id] = block.name
            blocks.append(_own(_in_words(block, names), target))
        yield Message("user" if message.role == "tool" else message.role, _spaced(blocks))


def _in_words(block: ContentBlock, names: dict[str, str]) -> ContentBlock:
    if isinstance(block, ToolUseBlock):
        return TextBlock(f"[Called the tool {block.name} with {dump_object(block.input)}]")
    if isinstance(block, ToolUseError):
        return TextBlock(f"[Tried to call {block.name or 'a tool'}: {block.error}]")
    if isinstance(block, ToolResultBlock):
        what = "failed" if block.is_error else "returned"
        name = block.name or names.get(block.tool_use_id, "")
        which = f"The tool {name}" if name else "A tool"
        return TextBlock(f"[{which} {what}: {result_text(block)}]")
    return block


def _own(block: ContentBlock, target: Origin) -> ContentBlock:
    if isinstance(block, MarkedBlock) and block.origin:
        return attrs.evolve(block, extra=target.owed(block, bound=BOUND), origin="")
    return block


def _merged(messages: Iterable[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last.role == message.role != "system":
            merged[-1] = Message(last.role, _spaced([*last.blocks, *message.blocks]))
        else:
            merged.append(message)
    return merged


def _spaced(blocks: Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Join adjacent texts with a blank line, because the wire format does not separate texts."""
    spaced: list[ContentBlock] = []
    for block in blocks:
        before = spaced[-1] if spaced else None
        if isinstance(block, TextBlock) and isinstance(before, TextBlock):
            text = f"{before.text}{_BETWEEN}{block.text}"
            spaced[-1] = TextBlock(text, extra={**before.extra, **block.extra})
        else:
            spaced.append(block)
    return tuple(spaced)

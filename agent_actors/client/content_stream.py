"""Converts the events of a run to the blocks that `Client` and `query()` yield. Pure.

Text and thinking are yielded as they stream, and tool calls when they are complete. Some responses
are not streamed, because a hook made them or because the provider sent them in one part. Their text
is yielded when the complete message arrives. Client-side tool calls are not yielded here:
`ClientTurn` yields them when the run has ended.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias

import attrs

from agent_actors.domain.blocks import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.events import (
    AssistantDelta,
    AssistantMessage,
    AssistantThinking,
    AttemptRestarted,
    Event,
    ToolResult,
)
from agent_actors.runs.tools.deferred_calls import error_text


@attrs.frozen
class AnswerRestarted:
    """The response failed and is being requested again: discard its blocks.

    Attributes:
        reason: The reason why the response failed.
    """

    reason: str
    type: ClassVar[Literal["answer_restarted"]] = "answer_restarted"


StreamBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ToolUseBlock
    | ToolUseError
    | ToolResultBlock
    | ImageBlock
    | AnswerRestarted
)
"""The blocks that `receive_messages()` yields and that messages from `query()` contain."""

FaceBlock: TypeAlias = StreamBlock
"""The former name of `StreamBlock`."""


class BlockReader:
    """Converts the events of one run to blocks.

    Args:
        client_side_tools: True if the caller executes the tool calls.
    """

    def __init__(self, *, client_side_tools: bool) -> None:
        self._client_side_tools = client_side_tools
        self._text_streamed = self._thinking_streamed = False
        self._calls: dict[str, ToolUseBlock] = {}

    def take(self, event: Event) -> Iterator[StreamBlock]:
        """Yield the blocks for an event: usually one or none."""
        match event:
            case AssistantDelta(text=text):
                self._text_streamed = True
                yield TextBlock(text)
            case AssistantThinking(text=text):
                self._thinking_streamed = True
                yield ThinkingBlock(text)
            case AttemptRestarted(reason=reason):
                self._text_streamed = self._thinking_streamed = False
                yield AnswerRestarted(reason)
            case AssistantMessage():
                yield from self._message(event)
            case ToolResult():
                yield from self._result(event)
            case _:
                pass

    def _message(self, message: AssistantMessage) -> Iterator[StreamBlock]:
        for block in message.blocks:
            match block:
                case TextBlock():
                    if not self._text_streamed:
                        yield block
                case ThinkingBlock():
                    if not self._thinking_streamed and block.thinking:
                        yield block
                case ToolUseError() | ImageBlock():
                    yield block
                case ToolUseBlock():
                    self._calls[block.id] = block
                    if not self._client_side_tools:
                        yield block
                case _:
                    pass  # blocks that only the provider understands
        self._text_streamed = self._thinking_streamed = False

    def _result(self, result: ToolResult) -> Iterator[StreamBlock]:
        call = self._calls.pop(result.tool_use_id, None)
        if call is None:
            return  # an invalid call, which was yielded as a `ToolUseError`
        if result.is_error:
            raw = call.raw_arguments or None
            yield ToolUseError(error_text(result.content), raw, call.id, call.name)
        if not self._client_side_tools:
            yield ToolResultBlock(call.id, result.content, result.is_error, call.name)

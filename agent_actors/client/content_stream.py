"""A run's events as the blocks that the small faces show, in the order in which they come.

Pure: an event in, blocks out. Text and thoughts are shown as they stream, calls when they are
whole. What a stream never showed, because a hook made the answer or a provider sent it in one
piece, is shown with the answer. Calls that the caller is to carry out are not shown from here: that
they are his is known when the run has ended.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal, TypeAlias

import attrs

from agent_actors.domain.blocks import (
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
from agent_actors.run.tools.deferred_calls import error_text


@attrs.frozen
class AnswerRestarted:
    """What this answer showed so far is void: it broke off, and comes again from its beginning.

    Attributes:
        reason: What broke it off.
    """

    reason: str
    type: ClassVar[Literal["answer_restarted"]] = "answer_restarted"


FaceBlock: TypeAlias = (
    TextBlock | ThinkingBlock | ToolUseBlock | ToolUseError | ToolResultBlock | AnswerRestarted
)
"""What `receive_messages()` yields, and what a message of `query()` holds."""


class BlockReader:
    """Turns the events of one run into blocks.

    Args:
        hands_out: Whether calls are the caller's to carry out.
    """

    def __init__(self, *, hands_out: bool) -> None:
        self._hands_out = hands_out
        self._shown_text = self._shown_thinking = False
        self._calls: dict[str, ToolUseBlock] = {}

    def take(self, event: Event) -> Iterator[FaceBlock]:
        """The blocks that this event shows; mostly one, or none."""
        match event:
            case AssistantDelta(text=text):
                self._shown_text = True
                yield TextBlock(text)
            case AssistantThinking(text=text):
                self._shown_thinking = True
                yield ThinkingBlock(text)
            case AttemptRestarted(reason=reason):
                self._shown_text = self._shown_thinking = False
                yield AnswerRestarted(reason)
            case AssistantMessage():
                yield from self._answer(event)
            case ToolResult():
                yield from self._result(event)
            case _:
                pass

    def _answer(self, answer: AssistantMessage) -> Iterator[FaceBlock]:
        for block in answer.blocks:
            match block:
                case TextBlock():
                    if not self._shown_text:
                        yield block
                case ThinkingBlock():
                    if not self._shown_thinking and block.thinking:
                        yield block
                case ToolUseError():
                    yield block
                case ToolUseBlock():
                    self._calls[block.id] = block
                    if not self._hands_out:
                        yield block
                case _:
                    pass  # what only the provider knows is for the provider
        self._shown_text = self._shown_thinking = False

    def _result(self, result: ToolResult) -> Iterator[FaceBlock]:
        call = self._calls.pop(result.tool_use_id, None)
        if call is None:
            return  # a call that came broken, and was shown as such
        if result.is_error:
            raw = call.raw_arguments or None
            yield ToolUseError(error_text(result.content), raw, call.id, call.name)
        if not self._hands_out:
            yield ToolResultBlock(call.id, result.content, result.is_error, call.name)

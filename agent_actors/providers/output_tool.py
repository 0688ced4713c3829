"""An output asked for by a tool: for endpoints that take a schema for a tool, and for nothing else.

The way is the wire's own affair. On the wire there is one more tool, which the model has to call;
on this side of it there is none: the pieces of its arguments are shown as text, and the call in the
answer becomes a text block with the same JSON. So readers see the answer grow as they do with any
other endpoint, no `tool.use` tells of a tool that nobody wrote, and the history holds nothing that
another endpoint, or a later request without this tool, would refuse.

Beside real tools the model may choose: it calls those first, and the output's last.
"""

from collections.abc import Sequence
from typing import Final, Self

import attrs

from agent_actors.abc import ModelSink
from agent_actors.domain.blocks import AssistantBlock, TextBlock, ToolUseBlock, ToolUseError
from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    OutputSchema,
    TextDelta,
    ToolCallDelta,
    ToolChoice,
    ToolSpec,
)

_NAME: Final = "final_answer"
_ABOUT: Final = (
    "Gives the final answer. Call it once, when everything is known, instead of answering in text."
)


@attrs.frozen
class OutputTool:
    """The tool by which one request's output is asked for.

    Attributes:
        request: The request with the tool in it, as it is to be sent.
        name: The tool's name.
    """

    request: ModelRequest
    name: str

    @classmethod
    def of(cls, request: ModelRequest, output: OutputSchema, *, force: bool = True) -> Self:
        """Put the tool into a request.

        Args:
            request: What is asked.
            output: What its answer has to be.
            force: Whether the model has to call a tool; false for endpoints that refuse to be told
                so, where the tool's description is all that asks for it.
        """
        name = _free_name({tool.name for tool in request.tools})
        choice = _choice(request, name) if force else None
        return cls(
            attrs.evolve(
                request,
                tools=(*request.tools, _spec(name, output)),
                settings=attrs.evolve(request.settings, tool_choice=choice),
            ),
            name,
        )

    def sink(self, sink: ModelSink) -> ModelSink:
        """Whom the pieces go to: the sink, with those of the tool as text."""
        return _TextSink(sink, self.name)

    def answer(self, answer: ModelCompleted) -> ModelCompleted:
        """The answer with the tool's calls as text, and the first of them as its output."""
        blocks: list[AssistantBlock] = []
        texts: list[str] = []
        for block in answer.blocks:
            if isinstance(block, ToolUseBlock | ToolUseError) and block.name == self.name:
                texts.append(_text(block))
                blocks += [TextBlock(texts[-1])] if texts[-1] else []
            else:
                blocks.append(block)
        if not texts:
            return answer
        calls = any(isinstance(block, ToolUseBlock | ToolUseError) for block in blocks)
        ended = answer.finish_reason == "tool_calls" and not calls
        return attrs.evolve(
            answer,
            blocks=tuple(blocks),
            finish_reason="stop" if ended else answer.finish_reason,
            output=texts[0],
        )


def _free_name(taken: set[str]) -> str:
    name = _NAME
    while name in taken:
        name += "_"
    return name


def _spec(name: str, output: OutputSchema) -> ToolSpec:
    about = f"{_ABOUT} It is: {output.description}" if output.description else _ABOUT
    return ToolSpec(name, about, output.schema)


def _choice(request: ModelRequest, name: str) -> ToolChoice:
    """What the model has to call: the output's tool where nothing else may be called."""
    choice = request.settings.tool_choice
    if not request.tools or choice == "none":
        return name
    return "required" if choice in (None, "auto") else choice


def _text(call: ToolUseBlock | ToolUseError) -> str:
    if isinstance(call, ToolUseBlock):
        return call.arguments_text
    return call.raw_data or ""


class _TextSink:
    """Shows the pieces of one tool's arguments as text.

    Args:
        sink: Whom they are shown to.
        name: The tool's name.
    """

    def __init__(self, sink: ModelSink, name: str) -> None:
        self._sink = sink
        self._name = name
        # By the calls' numbers: under which id each was shown, and how many characters of it. A
        # call whose id comes late is told again from its beginning.
        self._shown: dict[int | None, tuple[str, int]] = {}

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to take more."""
        return self._sink.full

    async def wait_room(self) -> None:
        """Return when `full` is no longer set.

        Cancellation: safe.
        """
        await self._sink.wait_room()

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Take the pieces of one read; True if there is surely room for more."""
        return self._sink.feed([shown for delta in deltas for shown in self._as_shown(delta)])

    def _as_shown(self, delta: ModelDelta) -> Sequence[ModelDelta]:
        if not isinstance(delta, ToolCallDelta) or delta.name != self._name:
            return (delta,)
        piece = delta.arguments if isinstance(delta.arguments, str) else ""
        call_id, count = self._shown.get(delta.index, (delta.id, 0))
        news = piece if call_id == delta.id else piece[count:]
        self._shown[delta.index] = (delta.id, count + len(news))
        return (TextDelta(news),) if news else ()

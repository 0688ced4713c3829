"""Request structured output with a tool, for endpoints that accept a schema only for tools.

The tool exists only on the wire. The request has one additional tool that the model must call. The
deltas of its arguments are shown as text, and its call in the response becomes a text block with
the same JSON. Users therefore see the output grow as with any other endpoint. No `tool.use` event
reports a tool that the user did not define. The history contains nothing that another endpoint, or
a later request without this tool, would refuse.

If the request has other tools, the model can choose: it calls those tools first, and the output
tool last.
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
    "Gives the final answer. Call it once, when you know everything, instead of answering in text."
)


@attrs.frozen
class OutputTool:
    """The tool through which a request gets its structured output.

    Attributes:
        request: The request to send, including the tool.
        name: The name of the tool.
    """

    request: ModelRequest
    name: str

    @classmethod
    def of(cls, request: ModelRequest, output: OutputSchema, *, force: bool = True) -> Self:
        """Add the tool to a request.

        Args:
            request: The request.
            output: The schema of the expected output.
            force: Whether the request forces the model to call a tool. Pass False for endpoints
                that refuse a forced call; in that case, only the description of the tool asks for
                the call.
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
        """Wrap the sink, so that it receives the deltas of the tool as text."""
        return _TextSink(sink, self.name)

    def answer(self, answer: ModelCompleted) -> ModelCompleted:
        """Replace each call of the tool with a text block; the first text becomes the output."""
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
    """Return the tool choice, which is the output tool if no other tool may be called."""
    choice = request.settings.tool_choice
    if not request.tools or choice == "none":
        return name
    return "required" if choice in (None, "auto") else choice


def _text(call: ToolUseBlock | ToolUseError) -> str:
    if isinstance(call, ToolUseBlock):
        return call.arguments_text
    return call.raw_data or ""


class _TextSink:
    """Forwards deltas, and shows the arguments of one tool as text.

    Args:
        sink: The sink that receives the deltas.
        name: The name of the tool.
    """

    def __init__(self, sink: ModelSink, name: str) -> None:
        self._sink = sink
        self._name = name
        # For each call index: the id under which the call was last shown, and the number of
        # characters that were shown. If the id of a call arrives late, the call is sent again from
        # its beginning.
        self._shown: dict[int | None, tuple[str, int]] = {}

    @property
    def full(self) -> bool:
        """True while the reader is too far behind to accept more deltas."""
        return self._sink.full

    async def wait_room(self) -> None:
        """Wait until `full` is False.

        Cancellation: safe.
        """
        await self._sink.wait_room()

    def feed(self, deltas: Sequence[ModelDelta]) -> bool | None:
        """Forward the deltas from one read; return True if `full` is certainly False."""
        return self._sink.feed([shown for delta in deltas for shown in self._as_shown(delta)])

    def _as_shown(self, delta: ModelDelta) -> Sequence[ModelDelta]:
        if not isinstance(delta, ToolCallDelta) or delta.name != self._name:
            return (delta,)
        piece = delta.arguments if isinstance(delta.arguments, str) else ""
        call_id, count = self._shown.get(delta.index, (delta.id, 0))
        news = piece if call_id == delta.id else piece[count:]
        self._shown[delta.index] = (delta.id, count + len(news))
        return (TextDelta(news),) if news else ()

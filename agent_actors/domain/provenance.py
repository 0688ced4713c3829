"""Who gave a block what it wants echoed, and to whom that goes back.

An endpoint gives more with its answers than a reader sees: seals on thoughts, signatures of calls,
citations, fields of its own. They are kept with the blocks and sent back, since some endpoints
refuse a conversation without them; to another endpoint they mean nothing, and strict ones refuse a
conversation with them. So a block that has something to echo bears the mark of who gave it.
A block without a mark is the caller's own, or of a log that is older than marks: what it holds is
sent to whoever is asked.

What goes where:

- *What belongs to the protocol* (seals of thoughts, citations, opaque blocks) goes to every
  endpoint that speaks it. The same models are served by several hosts, which all take each other's
  seals; and a thought that is missing between two calls of one turn is refused. An `OpaqueBlock`
  names its protocol itself, and needs no mark.
- *What belongs to the endpoint* (any other field, such as the `extra_content` of Gemini's chat
  completions) goes back to that endpoint, and to the same model behind another URL: what a model
  has sealed it wants back, whoever serves it, and a URL that moves must lose no session. Model
  names are compared from the last slash on, since hosts put their vendor before it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Self, TypeAlias, TypeGuard

import attrs

from agent_actors.domain.blocks import (
    AssistantBlock,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonValue
from agent_actors.domain.model import ModelCompleted

MarkedBlock: TypeAlias = TextBlock | ThinkingBlock | ToolUseBlock | ToolUseError

_NOTHING: Final[Mapping[str, JsonValue]] = {}
_NONE: Final = frozenset[str]()


@attrs.frozen
class Origin:
    """An endpoint and the model that is asked there.

    Attributes:
        protocol: What it speaks, such as `anthropic`.
        endpoint: Its name: the base URL, without secrets.
        model: The model, as the request names it.
    """

    protocol: str
    endpoint: str = ""
    model: str = ""

    @classmethod
    def of(cls, mark: str) -> Self:
        """Who made this mark. One that is cut short fits nobody whom it does not name."""
        protocol, _, rest = mark.partition(" ")
        endpoint, _, model = rest.partition(" ")
        return cls(protocol, endpoint, model)

    @property
    def mark(self) -> str:
        """The mark on a block: protocol, endpoint and model, a space between them."""
        return f"{self.protocol} {self.endpoint.replace(' ', '%20')} {self.model}"

    def speaks(self, mark: str) -> bool:
        """Whether what belongs to the protocol is to be sent here. Without a mark it always is."""
        return not mark or Origin.of(mark).protocol == self.protocol

    def gave(self, mark: str) -> bool:
        """Whether what belongs to the endpoint is to be sent here. Without a mark it always is."""
        if not mark:
            return True
        other, here = Origin.of(mark), Origin.of(self.mark)
        if other.protocol != here.protocol:
            return False
        same_model = _bare(other.model) == _bare(here.model) != ""
        return same_model or other.endpoint == here.endpoint != ""

    def owed(
        self, block: ContentBlock, shared: AbstractSet[str] = _NONE
    ) -> Mapping[str, JsonValue]:
        """What of a block's `extra` is to be sent here.

        Args:
            block: The block; only those of an answer can be marked.
            shared: The fields that belong to the protocol.
        """
        if not block.extra or not isinstance(block, MarkedBlock) or self.gave(block.origin):
            return block.extra
        if not shared or not self.speaks(block.origin):
            return _NOTHING
        return {key: value for key, value in block.extra.items() if key in shared}


def marked(answer: ModelCompleted, origin: Origin) -> ModelCompleted:
    """The answer, each block that has something to echo with the mark of who gave it.

    Others stay as they are, and so does an answer without any. A mark that is there holds.
    """
    if not any(_lacks_mark(block) for block in answer.blocks):
        return answer
    mark = origin.mark
    blocks = tuple(
        attrs.evolve(block, origin=mark) if _lacks_mark(block) else block for block in answer.blocks
    )
    return attrs.evolve(answer, blocks=blocks)


def _lacks_mark(block: AssistantBlock) -> TypeGuard[MarkedBlock]:
    if not isinstance(block, MarkedBlock) or block.origin:
        return False
    return bool(block.extra) or (isinstance(block, ThinkingBlock) and bool(block.signature))


def _bare(model: str) -> str:
    return model.rpartition("/")[2]

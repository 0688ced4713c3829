"""The origin of a block: the endpoint that sent its extra fields.

Endpoints send more than the visible response: signatures of thinking blocks and calls, citations,
and vendor-specific fields. These fields are stored with the blocks and sent back, because some
endpoints reject a conversation without them. Other endpoints do not understand these fields, and
strict endpoints reject a conversation that contains them. Each block with such fields therefore has
a mark that names its origin. A block without a mark was created by the caller, or comes from a log
written before marks existed; its fields are sent to every endpoint.

Rules:

- *Fields of the protocol* (signatures of thinking blocks, citations, opaque blocks) are sent to
  every endpoint with the same protocol. Several hosts serve the same models and accept each other's
  signatures, and endpoints reject a turn in which the thinking block between two calls is missing.
  An `OpaqueBlock` names its protocol itself and needs no mark.
- *Fields of the endpoint* (any other field, for example `extra_content` of Gemini's chat
  completions) are sent to the same endpoint, and to the same model at another URL. A model needs
  its signed values on every host, and a changed URL must not break a session. Model names are
  compared after their last slash, because hosts add a vendor prefix.
- *Fields in the endpoint's own format* (`reasoning_details` of OpenRouter) are sent only to the
  same endpoint, whatever the model, because the endpoint translates them for each model.
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
    """An endpoint and the model requested from it.

    Attributes:
        protocol: The endpoint's protocol, for example `anthropic`.
        endpoint: The endpoint's name, which is its base URL without secrets.
        model: The model's name in the request.
    """

    protocol: str
    endpoint: str = ""
    model: str = ""

    @classmethod
    def of(cls, mark: str) -> Self:
        """Return the origin named by a mark; missing parts are empty."""
        protocol, _, rest = mark.partition(" ")
        endpoint, _, model = rest.partition(" ")
        return cls(protocol, endpoint, model)

    @property
    def mark(self) -> str:
        """The mark for blocks: protocol, endpoint and model, separated by spaces."""
        return f"{self.protocol} {self.endpoint.replace(' ', '%20')} {self.model}"

    def speaks(self, mark: str) -> bool:
        """Return whether protocol fields with this mark are sent here; True without a mark."""
        return not mark or Origin.of(mark).protocol == self.protocol

    def gave(self, mark: str) -> bool:
        """Return whether endpoint fields with this mark are sent here; True without a mark."""
        if not mark:
            return True
        other, here = Origin.of(mark), Origin.of(self.mark)
        if other.protocol != here.protocol:
            return False
        same_model = _bare(other.model) == _bare(here.model) != ""
        return same_model or other.endpoint == here.endpoint != ""

    def is_endpoint_of(self, mark: str) -> bool:
        """Return whether the mark names this endpoint; always True without a mark."""
        other, here = Origin.of(mark), Origin.of(self.mark)
        return not mark or (other.protocol, other.endpoint) == (here.protocol, here.endpoint)

    def owed(
        self,
        block: ContentBlock,
        shared: AbstractSet[str] = _NONE,
        bound: AbstractSet[str] = _NONE,
    ) -> Mapping[str, JsonValue]:
        """Return the fields in a block's `extra` that are sent to this endpoint.

        Args:
            block: The block. Only blocks from a response can have a mark.
            shared: Names of the protocol's fields.
            bound: Names of the fields in the endpoint's own format.
        """
        if not block.extra or not isinstance(block, MarkedBlock) or not block.origin:
            return block.extra
        if self.gave(block.origin):
            if not bound or self.is_endpoint_of(block.origin):
                return block.extra
            return {key: value for key, value in block.extra.items() if key not in bound}
        if not shared or not self.speaks(block.origin):
            return _NOTHING
        return {key: value for key, value in block.extra.items() if key in shared}


def marked(answer: ModelCompleted, origin: Origin) -> ModelCompleted:
    """Return the response with a mark on each block that has fields to send back.

    Blocks without such fields, and blocks that already have a mark, stay unchanged.
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


def public_url(url: str) -> str:
    """Return the URL without its credentials and its query, which may contain a key."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"

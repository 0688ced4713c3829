"""Assign the deltas of one response to its blocks.

An endpoint numbers its blocks, reports the beginning and the end of each block, and sends each
delta with the index of its block. This module corrects common deviations:

- An index that is used again begins another block, unless an identical block begins twice.
- A delta for a block that never began, or for a block of another type, begins a block of the
  delta's own type.
- The initial content of a block counts in the same way as later deltas. If arguments arrive both
  ways, only those in the deltas are used.
- The end of the response ends all blocks that are still open.

If a part of the response is lost (`damage`), calls that had not ended are not executed, and neither
are calls that receive further deltas afterwards. Calls that had already ended, or that begin
afterwards, are executed.

Blocks are in the order in which they first appear. Two consecutive texts remain two blocks, because
citations and signatures belong to one of them. A block of unknown type is kept as an object. Its
deltas are merged into the object: text is appended to text, lists are appended to lists, and other
values replace the previous value.

`block_builders` builds the individual blocks.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from agent_actors.domain.blocks import AssistantBlock
from agent_actors.domain.model import ModelDelta, ModelRequest
from agent_actors.protocol.response.call_ids import CallIds
from agent_actors.providers.anthropic.block_builders import CallPart, Cut, OpaquePart, ProsePart
from agent_actors.providers.anthropic.wire import Delta, OddDelta
from agent_actors.providers.wire_json import WireObject, text_in

Part: TypeAlias = ProsePart | CallPart | OpaquePart

_NOTHING: Final[Sequence[ModelDelta]] = ()

_TEXT: Final[WireObject] = {"type": "text"}
_THINKING: Final[WireObject] = {"type": "thinking"}
_CALL: Final[WireObject] = {"type": "tool_use"}
_BLOCK_OF: Final[dict[str | None, WireObject]] = {
    "text_delta": _TEXT,
    "citations_delta": _TEXT,
    "thinking_delta": _THINKING,
    "signature_delta": _THINKING,
    "input_json_delta": _CALL,
}
"""The type of block that a delta begins if no block accepts the delta."""


class BlockTable:
    """The blocks of one response.

    Args:
        request: The request, which determines new and rewritten call ids.
    """

    __slots__ = (
        "_by_index",
        "_calls",
        "_damaged",
        "_fresh",
        "_ids",
        "_last",
        "_lenient",
        "_parts",
    )

    def __init__(self, request: ModelRequest) -> None:
        self._ids = CallIds(turn=request.turn, known=request.known_call_ids)
        self._lenient = request.settings.lenient_tool_json
        self._calls = 0
        self._parts: list[Part] = []
        self._by_index: dict[int, Part] = {}
        # The block that received the last delta.
        self._last: Part | None = None
        # `_damaged` is True once a part of the response was lost; `_fresh` has the blocks begun
        # since then.
        self._damaged = False
        self._fresh: list[Part] = []

    def __len__(self) -> int:
        return len(self._parts)

    def begin(self, index: int | None, begun: WireObject) -> Sequence[ModelDelta]:
        """Begin a block; return the deltas to show."""
        there = self._at(index)
        if there is not None and there.fresh and not there.ended and there.begun == begun:
            return _NOTHING
        return self._open(index, begun)

    def add(self, index: int | None, delta: Delta) -> Sequence[ModelDelta]:
        """Add a delta to a block; return the deltas to show."""
        part = self._at(index)
        if part is not None and part.takes(delta):
            part.numbered = part.numbered or index is not None
            return self._add_to(part, delta)
        return self._add_elsewhere(index, delta)

    def _add_to(self, part: Part, delta: Delta) -> Sequence[ModelDelta]:
        # A delta arrived for a block that began before a part of the response was lost, so the
        # block may be incomplete.
        part.damaged = part.damaged or part.survivor
        self._last = part
        return part.add(delta)

    def end(self, index: int | None) -> Sequence[ModelDelta]:
        """End a block; return the deltas to show."""
        part = self._at(index)
        if part is None:
            return _NOTHING
        part.ended = True
        return part.flush()

    def damage(self) -> None:
        """Record that a part of the response may be lost at this point."""
        self._damaged = True
        for part in self._fresh:
            part.damaged = not part.ended
            part.survivor = True
        self._fresh.clear()

    def flush(self) -> Sequence[ModelDelta]:
        """Return the remaining deltas to show at the end of the response."""
        return [delta for part in self._parts for delta in part.flush()]

    def blocks(self, cut: str, *, void: str = "") -> list[AssistantBlock]:
        """Return the finished blocks.

        Args:
            cut: The reason why the response is incomplete; empty if it is complete.
            void: The reason why no call of the response may be executed; empty if there is none.
        """
        return list(self._blocks(cut, void=void))

    def size(self) -> int:
        """Return the number of characters of all blocks so far; the cost grows with the deltas."""
        return sum(part.size for part in self._parts)

    def arguments_size(self) -> int:
        """Return the total number of characters in the arguments of all calls."""
        return sum(len(part.arguments) for part in self._parts if isinstance(part, CallPart))

    def _blocks(self, cut: str, *, void: str) -> Iterator[AssistantBlock]:
        for part in self._parts:
            here = part is self._last
            yield from part.blocks(Cut(cut, here=here, void=void, damaged=self._damaged))

    def _at(self, index: int | None) -> Part | None:
        """Return the block with this index; without an index, the last block."""
        return self._last if index is None else self._by_index.get(index)

    def _open(self, index: int | None, begun: WireObject) -> Sequence[ModelDelta]:
        settled = self._last.flush() if self._last is not None else _NOTHING
        part = self._part(begun)
        self._parts.append(part)
        self._fresh.append(part)
        self._last = part
        if index is not None:
            self._by_index[index] = part
        return [*settled, *part.begin()]

    def _part(self, begun: WireObject) -> Part:
        kind = text_in(begun, "type")
        if kind in {"text", "thinking"}:
            return ProsePart(begun, thinking=kind == "thinking")
        if kind == "tool_use":
            self._calls += 1
            return CallPart(begun, self._calls - 1, self._ids, lenient=self._lenient)
        return OpaquePart(begun)

    def _add_elsewhere(self, index: int | None, delta: Delta) -> Sequence[ModelDelta]:
        """Add a delta that does not match the block with its index."""
        if _is_empty(delta):
            return _NOTHING
        if isinstance(delta, OddDelta):
            # The block of this delta is unknown, so the delta becomes a separate block.
            shown = self._open(index, {"type": delta.type})
            return [*shown, *self._parts[-1].add(delta)]
        if delta.type in {"signature_delta", "citations_delta", "input_json_delta"}:
            # This delta has no meaning by itself, so it is added to the last block that may be
            # missing it.
            for part in reversed(self._parts):
                if part.lacks(delta):
                    # If a call received deltas with its own index, this delta may belong to another
                    # call.
                    if part.numbered and isinstance(part, CallPart):
                        part.damaged = True
                    return self._add_to(part, delta)
        shown = self._open(index, _BLOCK_OF[delta.type])
        return [*shown, *self._parts[-1].add(delta)]


def _is_empty(delta: Delta) -> bool:
    added = delta.text or delta.thinking or delta.partial_json or delta.signature or delta.citation
    return not added and not isinstance(delta, OddDelta)

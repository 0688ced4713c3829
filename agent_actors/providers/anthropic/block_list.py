"""The blocks of one answer while they grow.

Owns what belongs to which block. The endpoint numbers its blocks, begins and ends each, and sends
what is added to it under its number; what endpoints make of that is undone here:

- a number that is used again begins another block, unless the very same block is begun twice;
- what is added to a block that never began, or that is of another kind, begins one of its own kind;
- what a block holds when it begins counts as much as what is added later; arguments that come both
  ways are those that came later;
- a block that never ended is ended by the end of the answer.

Where something of the answer is lost on the way (`damage`), the calls that had not ended are not
carried out, nor those that anything is added to afterwards; a call that had ended before, or began
afterwards, is.

Blocks stand in the order in which they were first seen, each by itself: two texts in a row stay two
texts, because citations and seals belong to one of them. A block of a kind that is not known here
is kept as an object, to which is added what comes for it: text is appended to text, lists to lists,
and anything else takes the place of what was there.

What one block is made of stands in `parts`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from agent_actors.domain.blocks import AssistantBlock
from agent_actors.domain.model import ModelDelta, ModelRequest
from agent_actors.protocol.response.call_ids import CallIds
from agent_actors.providers.anthropic.block_builders import CallPart, Cut, OpaquePart, ProsePart
from agent_actors.providers.anthropic.wire import Delta, OddDelta, WireObject, text_in

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
"""What a delta is added to, where nothing says to what."""


class BlockTable:
    """The blocks of one answer.

    Args:
        request: What was asked: ids of calls that are made up, or rewritten, depend on it.
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
        # The block that something came for last.
        self._last: Part | None = None
        # True once something was lost; and the blocks that began since then.
        self._damaged = False
        self._fresh: list[Part] = []

    def __len__(self) -> int:
        return len(self._parts)

    def begin(self, index: int | None, begun: WireObject) -> Sequence[ModelDelta]:
        """A block begins; return what is to be shown."""
        there = self._at(index)
        if there is not None and there.fresh and not there.ended and there.begun == begun:
            return _NOTHING
        return self._open(index, begun)

    def add(self, index: int | None, delta: Delta) -> Sequence[ModelDelta]:
        """Something is added to a block; return what is to be shown."""
        part = self._at(index)
        if part is not None and part.takes(delta):
            part.numbered = part.numbered or index is not None
            return self._add_to(part, delta)
        return self._add_elsewhere(index, delta)

    def _add_to(self, part: Part, delta: Delta) -> Sequence[ModelDelta]:
        # More of a block that had ended before something was lost: it was not complete.
        part.damaged = part.damaged or part.survivor
        self._last = part
        return part.add(delta)

    def end(self, index: int | None) -> Sequence[ModelDelta]:
        """A block is whole; return what is to be shown."""
        part = self._at(index)
        if part is None:
            return _NOTHING
        part.ended = True
        return part.flush()

    def damage(self) -> None:
        """Something of the answer may be lost between what came and what comes next."""
        self._damaged = True
        for part in self._fresh:
            part.damaged = not part.ended
            part.survivor = True
        self._fresh.clear()

    def flush(self) -> Sequence[ModelDelta]:
        """What is still to be shown when no more comes."""
        return [delta for part in self._parts for delta in part.flush()]

    def blocks(self, cut: str, *, broken: bool, void: str = "") -> list[AssistantBlock]:
        """What all of it became.

        Args:
            cut: Why the answer is not whole; empty if it is.
            broken: True if it just broke off, so that what did not end cannot be whole.
            void: Why no call of it is carried out; empty if nothing speaks against all of them.
        """
        return list(self._blocks(cut, broken=broken, void=void))

    def size(self) -> int:
        """Characters of all of them so far; it looks at every piece."""
        return sum(part.size for part in self._parts)

    def arguments_size(self) -> int:
        """Characters of all calls' arguments."""
        return sum(len(part.arguments) for part in self._parts if isinstance(part, CallPart))

    def _blocks(self, cut: str, *, broken: bool, void: str) -> Iterator[AssistantBlock]:
        for part in self._parts:
            here = part is self._last
            yield from part.blocks(
                Cut(cut, broken=broken, here=here, void=void, damaged=self._damaged)
            )

    def _at(self, index: int | None) -> Part | None:
        """The block of this number; the last one if there is no number."""
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
        """A delta that fits no block of its number."""
        if _is_empty(delta):
            return _NOTHING
        if isinstance(delta, OddDelta):
            # Nothing tells what it is part of: it is kept as a block of its own.
            shown = self._open(index, {"type": delta.type})
            return [*shown, *self._parts[-1].add(delta)]
        if delta.type in {"signature_delta", "citations_delta", "input_json_delta"}:
            # It is worth nothing by itself: it goes to the last block that may lack it.
            for part in reversed(self._parts):
                if part.lacks(delta):
                    # One that got others under its own number need not be the one that is meant.
                    if part.numbered and isinstance(part, CallPart):
                        part.damaged = True
                    return self._add_to(part, delta)
        shown = self._open(index, _BLOCK_OF[delta.type])
        return [*shown, *self._parts[-1].add(delta)]


def _is_empty(delta: Delta) -> bool:
    added = delta.text or delta.thinking or delta.partial_json or delta.signature or delta.citation
    return not added and not isinstance(delta, OddDelta)

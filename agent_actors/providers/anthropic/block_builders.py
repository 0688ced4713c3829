"""One block while it grows: prose, a call, or what only the provider knows.

Each kind knows which deltas it takes, what of them is to be shown at once, and what block it
becomes. Which part a delta is for is told in `blocks`, what argument text means in
`protocol.arguments`, how ids are made in `protocol.call_ids`.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, cast

import attrs

from agent_actors.domain.blocks import (
    AssistantBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import (
    ModelDelta,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.protocol.response.arguments import (
    BadArguments,
    GoodArguments,
    ParsedArguments,
    dump_object,
    parse_arguments,
)
from agent_actors.protocol.response.assembler import DAMAGED_CALL
from agent_actors.protocol.response.call_ids import CallIds
from agent_actors.protocol.response.text import TextFlow, mend_object, mend_surrogates
from agent_actors.providers.anthropic.wire import Delta, OddDelta, WireObject, text_in

PROVIDER: Final = "anthropic"
"""Whose form opaque blocks are in."""

_LEAKED_TOKEN: Final = "<|"
"""Opens a control token of the model's chat format; what follows in a name is not the name."""

_NOTHING: Final[Sequence[ModelDelta]] = ()
# Nobody is shown what only the provider knows; but a stream that brings it is not silent.
_PROGRESS: Final[Sequence[ModelDelta]] = (ProgressDelta(),)


@attrs.frozen
class Cut:
    """How an answer ended, as one of its blocks sees it.

    Attributes:
        why: Why it is not whole; empty if it is.
        broken: True if it just broke off: what did not end cannot be whole.
        here: True if this block is the one that something came for last.
        void: Why no call of the answer is carried out; empty if nothing speaks against all of them.
        damaged: True if something of the answer was lost on the way.
    """

    why: str
    broken: bool
    here: bool
    void: str = ""
    damaged: bool = False


class Growing:
    """What all blocks have in common while they grow.

    Args:
        begun: The block as it began.

    Attributes:
        begun: Likewise.
        ended: True once the endpoint said that it is whole.
        fresh: True until something was added.
        numbered: True once something was added under its own number.
        damaged: True if some of it may be lost, or may belong to another block.
        survivor: True if something was lost after it had begun.
    """

    __slots__ = ("begun", "damaged", "ended", "fresh", "numbered", "survivor")

    def __init__(self, begun: WireObject) -> None:
        self.begun: WireObject = begun
        self.ended: bool = False
        self.fresh: bool = True
        self.numbered: bool = False
        self.damaged: bool = False
        self.survivor: bool = False


class ProsePart(Growing):
    """Text or thinking.

    Args:
        begun: The block as it began.
        thinking: Which of the two.
    """

    __slots__ = (
        "_cited",
        "_extra",
        "_flow",
        "_pieces",
        "_signature",
        "_thinking",
        "_weight",
    )

    def __init__(self, begun: WireObject, *, thinking: bool) -> None:
        super().__init__(begun)
        self._thinking = thinking
        self._flow = TextFlow()
        self._pieces: list[str] = []
        self._signature = text_in(begun, "signature") if thinking else ""
        known = {"type", "thinking", "signature"} if thinking else {"type", "text"}
        self._extra = _extra(begun, known)
        # Citations that were added, and what they weigh.
        self._cited: list[JsonValue] = []
        self._weight = 0

    @property
    def size(self) -> int:
        """Characters so far, those of citations included."""
        return sum(map(len, self._pieces)) + self._weight

    def takes(self, delta: Delta) -> bool:
        """True if this delta can be a part of it."""
        if self._thinking:
            return delta.type in {"thinking_delta", "signature_delta"}
        return delta.type in {"text_delta", "citations_delta"}

    def lacks(self, delta: Delta) -> bool:
        """True if it may be waiting for this delta, though its number says otherwise."""
        return self.takes(delta)

    def begin(self) -> Sequence[ModelDelta]:
        """What is to be shown of it as it began."""
        text = text_in(self.begun, "thinking" if self._thinking else "text")
        # Fed with nothing, a flow waits for what extends it.
        return self._shown(self._flow.feed(text)) if text else _NOTHING

    def add(self, delta: Delta) -> Sequence[ModelDelta]:
        """Take what is added; return what is to be shown of it."""
        self.fresh = False
        text = delta.thinking if self._thinking else delta.text
        if text:
            return self._shown(self._flow.feed(text))
        if delta.signature:
            self._signature = delta.signature
            return (ThinkingDelta("", delta.signature),)
        if delta.citation:
            self._cited.append(cast(JsonValue, delta.citation))
            self._weight += _weight(delta.citation)
            return _PROGRESS
        return _NOTHING

    def flush(self) -> Sequence[ModelDelta]:
        """What was held back."""
        return self._shown(self._flow.flush()) if self._flow.holds else _NOTHING

    def blocks(self, cut: Cut) -> Iterator[AssistantBlock]:
        """What it became: nothing if nothing came that is worth a block."""
        text = "".join(self._pieces)
        if not self._thinking:
            if text:
                yield TextBlock(text, extra=mend_object(self._with_citations()))
        elif text or self._signature or self._extra:
            # A signature is of the complete thought: with another text it is refused for ever.
            signature = "" if self.damaged else self._signature
            yield ThinkingBlock(text, signature, extra=mend_object(self._extra))

    def _with_citations(self) -> JsonObject:
        if not self._cited:
            return self._extra
        begun = self._extra.get("citations")
        known = begun if isinstance(begun, list) else []
        return {**self._extra, "citations": [*known, *self._cited]}

    def _shown(self, text: str) -> Sequence[ModelDelta]:
        if not text:
            return _NOTHING
        self._pieces.append(text)
        return (ThinkingDelta(text) if self._thinking else TextDelta(text),)


class CallPart(Growing):
    """A call of a tool.

    Args:
        begun: The block as it began.
        number: Its place among the calls.
        ids: Gives the call its id.
        lenient: Whether arguments that are nearly JSON are read as what they mean.
    """

    __slots__ = (
        "_call_id",
        "_extra",
        "_given",
        "_ids",
        "_lenient",
        "_name",
        "_number",
        "_pieces",
        "_shown_given",
        "_textual",
    )

    def __init__(
        self, begun: WireObject, number: int, ids: CallIds, *, lenient: bool = False
    ) -> None:
        super().__init__(begun)
        self._number = number
        self._ids = ids
        self._lenient = lenient
        self._call_id = ids.give(number, text_in(begun, "id"))
        self._name = text_in(begun, "name").partition(_LEAKED_TOKEN)[0].strip()
        self._extra = _extra(begun, {"type", "id", "name", "input"})
        self._pieces: list[str] = []
        # Arguments that came with the beginning; they count only if none come later.
        self._given, self._textual = _given_arguments(begun.get("input"))
        self._shown_given = False

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return "".join(self._pieces) or self._given

    @property
    def size(self) -> int:
        """Characters of the arguments so far."""
        return sum(map(len, self._pieces))

    def takes(self, delta: Delta) -> bool:
        """True if this delta can be a part of it."""
        return delta.type == "input_json_delta"

    def lacks(self, delta: Delta) -> bool:
        """True if it may be waiting for this delta, though its number says otherwise."""
        return delta.type == "input_json_delta" and not self.ended

    def begin(self) -> Sequence[ModelDelta]:
        """That it is called, and by which name."""
        return (ToolCallDelta(self._number, self._call_id, self._name, ""),)

    def add(self, delta: Delta) -> Sequence[ModelDelta]:
        """Take more of the arguments."""
        self.fresh = False
        piece = delta.partial_json
        if not piece:
            return _NOTHING
        if isinstance(piece, str):
            self._textual = True
        else:
            piece = dump_object(cast(JsonObject, piece))
            self._textual = False
        self._pieces.append(piece)
        return (self._fragment(piece),)

    def flush(self) -> Sequence[ModelDelta]:
        """The arguments that came with the beginning, if it turned out that they are all."""
        if self._pieces or not self._given or self._shown_given:
            return _NOTHING
        self._shown_given = True
        return (self._fragment(self._given),)

    def blocks(self, cut: Cut) -> Iterator[AssistantBlock]:
        """The calls in it: one, or as many as there were objects in its arguments."""
        if not (self._name or self.arguments or text_in(self.begun, "id")):
            return
        extra = mend_object(self._extra)
        # What was cut is not repaired: it may look whole and have been the start of more.
        whole = not (cut.damaged or (cut.why and (cut.here or not self.ended)))
        lenient = self._lenient and whole
        for place, parsed in enumerate(parse_arguments(self.arguments, lenient=lenient)):
            call_id = self._ids.give(self._number) if place else self._call_id
            fault = self._fault(parsed, cut)
            if not fault and isinstance(parsed, GoodArguments):
                raw = parsed.raw if self._textual else ""
                yield ToolUseBlock(
                    call_id, self._name, parsed.input, raw, repaired=parsed.repaired, extra=extra
                )
            else:
                raw_data = (parsed.raw or self.arguments) or None
                yield ToolUseError(fault, raw_data, call_id, self._name, extra=extra)

    def _fragment(self, piece: str) -> ToolCallDelta:
        # Halves of characters are joined in the block; a reader must be able to encode each piece.
        return ToolCallDelta(self._number, self._call_id, self._name, mend_surrogates(piece))

    def _fault(self, parsed: ParsedArguments, cut: Cut) -> str:
        """Why this call cannot be carried out; empty if it can."""
        if cut.void:
            return cut.void
        if self.damaged:
            return DAMAGED_CALL
        if not self._name:
            return "the call names no tool"
        if isinstance(parsed, BadArguments):
            if cut.why:
                return f"{cut.why} before the arguments of this call were whole"
            return parsed.error
        if cut.broken and not self.ended:
            return f"{cut.why} before this call was whole"
        # A token limit ends the block that it cuts: that it ended says nothing.
        if cut.why and not cut.broken and cut.here and not parsed.input:
            return f"{cut.why} before the arguments of this call came"
        return ""


class OpaquePart(Growing):
    """A block of any other kind."""

    __slots__ = ("_data", "_grown", "_pieces", "_weight")

    def __init__(self, begun: WireObject) -> None:
        super().__init__(begun)
        self._data = dict(begun)
        # What an input grows by: tools that the provider runs take one too.
        self._pieces: list[str] = []
        # Texts and lists that were added to, by their keys, in pieces.
        self._grown: dict[str, list[object]] = {}
        self._weight = _weight(begun)

    @property
    def size(self) -> int:
        """Characters of all that came."""
        return sum(map(len, self._pieces)) + self._weight

    def takes(self, delta: Delta) -> bool:
        """True while it is not whole: what is not known may be made of anything."""
        return not self.ended or isinstance(delta, OddDelta)

    def lacks(self, delta: Delta) -> bool:
        """True if it may be waiting for this delta, though its number says otherwise."""
        return delta.type == "input_json_delta" and "input" in self.begun and not self.ended

    def begin(self) -> Sequence[ModelDelta]:
        """That something came: it is not for readers."""
        return _PROGRESS

    def add(self, delta: Delta) -> Sequence[ModelDelta]:
        """Take what is added; of it only is shown that it came."""
        self.fresh = False
        if isinstance(delta, OddDelta):
            more: WireObject = {k: value for k, value in delta.raw.items() if k != "type"}
        elif isinstance(delta.partial_json, str):
            self._pieces.append(delta.partial_json)
            return _PROGRESS if delta.partial_json else _NOTHING
        else:
            more = {
                "input": delta.partial_json,
                "text": delta.text,
                "thinking": delta.thinking,
                "signature": delta.signature,
                "citations": [delta.citation] if delta.citation else None,
            }
        self._grow(more)
        return _PROGRESS if any(more.values()) else _NOTHING

    def flush(self) -> Sequence[ModelDelta]:
        """Nothing."""
        return _NOTHING

    def blocks(self, cut: Cut) -> Iterator[AssistantBlock]:
        """The object that it became."""
        if self._pieces and not self.damaged:
            (parsed, *_) = parse_arguments("".join(self._pieces))
            # An input that is not whole is left as it began: this object must stay JSON.
            if isinstance(parsed, GoodArguments):
                self._data["input"] = parsed.input
        data = mend_object(cast(JsonObject, self._whole()))
        if data:  # else it was nested too deeply to be sent again
            yield OpaqueBlock(dict(data), PROVIDER)

    def _grow(self, more: WireObject) -> None:
        for key, value in more.items():
            if value is None:
                continue
            self._weight += _weight(value)
            there = self._data.get(key)
            if isinstance(there, str) and isinstance(value, str):
                self._grown.setdefault(key, []).append(value)
            elif isinstance(there, list) and isinstance(value, list):
                self._grown.setdefault(key, []).extend(cast("list[object]", value))
            else:
                self._data[key] = value
                self._grown.pop(key, None)

    def _whole(self) -> WireObject:
        """The object with what was added to it."""
        whole = dict(self._data)
        for key, more in self._grown.items():
            there = whole[key]
            if isinstance(there, str):
                whole[key] = there + "".join(cast("list[str]", more))
            else:
                whole[key] = [*cast("list[object]", there), *more]
        return whole


def _weight(value: object) -> int:
    """About how many characters a value has, however deep it is."""
    weight, left = 0, [value]
    while left:
        one = left.pop()
        weight += len(one) if isinstance(one, str) else 1
        if isinstance(one, dict):
            left += cast("dict[object, object]", one).keys()
            left += cast("dict[object, object]", one).values()
        elif isinstance(one, list):
            left += cast("list[object]", one)
    return weight


def _extra(begun: WireObject, known: set[str]) -> JsonObject:
    """What the block began with beside what is known: it goes back with it."""
    return {
        key: cast(JsonValue, value)
        for key, value in begun.items()
        if key not in known and value is not None
    }


def _given_arguments(value: object) -> tuple[str, bool]:
    """Arguments as text, and whether they came as text."""
    if isinstance(value, str):
        return value, True
    if not value:
        return "", True
    return json.dumps(value, ensure_ascii=False), False

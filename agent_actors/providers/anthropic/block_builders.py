"""Builders for the blocks of a response: text, thinking, tool calls and opaque blocks.

Each builder knows which deltas it accepts, which deltas it shows immediately, and which blocks it
produces. `block_list` assigns deltas to builders. `protocol.response.arguments` parses argument
text, and `protocol.response.call_ids` creates ids.
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
from agent_actors.providers.anthropic.wire import Delta, OddDelta
from agent_actors.providers.wire_json import WireObject, text_in

PROVIDER: Final = "anthropic"
"""The provider name of opaque blocks in this protocol's format."""

_LEAKED_TOKEN: Final = "<|"
"""The start of a control token from the model's chat format; the name ends before it."""

_NOTHING: Final[Sequence[ModelDelta]] = ()
# Opaque content is not shown to users. A progress delta shows that the stream is still active.
_PROGRESS: Final[Sequence[ModelDelta]] = (ProgressDelta(),)


@attrs.frozen
class Cut:
    """The end of the response, as far as it concerns one block.

    Attributes:
        why: The reason why the response is incomplete; empty if it is complete.
        here: True if this block received the last delta.
        void: The reason why no call of the response may be executed; empty if there is none.
        damaged: True if a part of the response was lost.
    """

    why: str
    here: bool
    void: str = ""
    damaged: bool = False


class Growing:
    """The base class of all block builders.

    Args:
        begun: The initial content of the block, from the event that began it.

    Attributes:
        begun: The initial content of the block, from the event that began it.
        ended: True once the endpoint has reported the end of the block.
        fresh: True until a delta is added.
        numbered: True once a delta with the block's own index was added.
        damaged: True if a part of the block may be lost, or may belong to another block.
        survivor: True if a part of the response was lost after the block began.
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
    """Builds a text or thinking block.

    Args:
        begun: The initial content of the block, from the event that began it.
        thinking: True for a thinking block, False for a text block.
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
        # The citations that were added, and their approximate number of characters.
        self._cited: list[JsonValue] = []
        self._weight = 0

    @property
    def size(self) -> int:
        """The number of characters so far, including citations."""
        return sum(map(len, self._pieces)) + self._weight

    def takes(self, delta: Delta) -> bool:
        """Return whether this delta can belong to the block."""
        if self._thinking:
            return delta.type in {"thinking_delta", "signature_delta"}
        return delta.type in {"text_delta", "citations_delta"}

    def lacks(self, delta: Delta) -> bool:
        """Return whether a delta with another index may be a missing part of this block."""
        return self.takes(delta)

    def begin(self) -> Sequence[ModelDelta]:
        """Return the deltas to show for the block's initial content."""
        text = text_in(self.begun, "thinking" if self._thinking else "text")
        # If the flow were fed an empty text, it would wait for an extension of it.
        return self._shown(self._flow.feed(text)) if text else _NOTHING

    def add(self, delta: Delta) -> Sequence[ModelDelta]:
        """Add a delta; return the deltas to show."""
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
        """Return the text that was held back."""
        return self._shown(self._flow.flush()) if self._flow.holds else _NOTHING

    def blocks(self, cut: Cut) -> Iterator[AssistantBlock]:
        """Return the block; nothing if it is empty."""
        text = "".join(self._pieces)
        if not self._thinking:
            if text:
                yield TextBlock(text, extra=mend_object(self._with_citations()))
        elif text or self._signature or self._extra:
            # A signature covers the complete thinking text. If the text differs, the endpoint
            # always refuses the signature.
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
    """Builds a tool call.

    Args:
        begun: The initial content of the block, from the event that began it.
        number: The position among the calls.
        ids: Assigns the id of the call.
        lenient: Whether arguments that are almost valid JSON are repaired.
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
        # Arguments in the initial content of the block. They are used only if no delta has
        # arguments.
        self._given, self._textual = _given_arguments(begun.get("input"))
        self._shown_given = False

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return "".join(self._pieces) or self._given

    @property
    def size(self) -> int:
        """The number of characters of the arguments so far."""
        return sum(map(len, self._pieces))

    def takes(self, delta: Delta) -> bool:
        """Return whether this delta can belong to the block."""
        return delta.type == "input_json_delta"

    def lacks(self, delta: Delta) -> bool:
        """Return whether a delta with another index may be a missing part of this block."""
        return delta.type == "input_json_delta" and not self.ended

    def begin(self) -> Sequence[ModelDelta]:
        """Return a delta that shows the name of the call."""
        return (ToolCallDelta(self._number, self._call_id, self._name, ""),)

    def add(self, delta: Delta) -> Sequence[ModelDelta]:
        """Add arguments; return the deltas to show."""
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
        """Return the initial arguments of the block, if no delta had arguments."""
        if self._pieces or not self._given or self._shown_given:
            return _NOTHING
        self._shown_given = True
        return (self._fragment(self._given),)

    def blocks(self, cut: Cut) -> Iterator[AssistantBlock]:
        """Return one call, or one call for each object in the arguments."""
        if not (self._name or self.arguments or text_in(self.begun, "id")):
            return
        extra = mend_object(self._extra)
        # Arguments that were cut off are not repaired: they may look complete although more was to
        # follow.
        complete = not (cut.damaged or (cut.why and (cut.here or not self.ended)))
        lenient = self._lenient and complete
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
        # In the block, split surrogate pairs are joined, but users must be able to encode each
        # delta.
        return ToolCallDelta(self._number, self._call_id, self._name, mend_surrogates(piece))

    def _fault(self, parsed: ParsedArguments, cut: Cut) -> str:
        """Return the reason why this call cannot be executed; empty if it can."""
        if cut.void:
            return cut.void
        if self.damaged:
            return DAMAGED_CALL
        if not self._name:
            return "the call does not name a tool"
        if isinstance(parsed, BadArguments):
            if cut.why:
                return f"{cut.why} before the arguments of this call were complete"
            return parsed.error
        # The endpoint also ends a block that the token limit cuts off, so `ended` does not mean
        # complete.
        if cut.why and cut.here and not parsed.input:
            return f"{cut.why} before the arguments of this call arrived"
        return ""


class OpaquePart(Growing):
    """Builds a block of any other type."""

    __slots__ = ("_data", "_grown", "_pieces", "_weight")

    def __init__(self, begun: WireObject) -> None:
        super().__init__(begun)
        self._data = dict(begun)
        # The deltas of a tool input. Tools that the provider runs have an input too.
        self._pieces: list[str] = []
        # What was added to texts and lists, by their keys.
        self._grown: dict[str, list[object]] = {}
        self._weight = _weight(begun)

    @property
    def size(self) -> int:
        """The number of characters received."""
        return sum(map(len, self._pieces)) + self._weight

    def takes(self, delta: Delta) -> bool:
        """Return True until the block has ended, and always for a delta of unknown type."""
        return not self.ended or isinstance(delta, OddDelta)

    def lacks(self, delta: Delta) -> bool:
        """Return whether a delta with another index may be a missing part of this block."""
        return delta.type == "input_json_delta" and "input" in self.begun and not self.ended

    def begin(self) -> Sequence[ModelDelta]:
        """Return a progress delta, because the content is not shown."""
        return _PROGRESS

    def add(self, delta: Delta) -> Sequence[ModelDelta]:
        """Add a delta; return a progress delta, because the content is not shown."""
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
        """Return nothing."""
        return _NOTHING

    def blocks(self, cut: Cut) -> Iterator[AssistantBlock]:
        """Return the assembled object as a block."""
        if self._pieces and not self.damaged:
            (parsed, *_) = parse_arguments("".join(self._pieces))
            # An incomplete input keeps its initial value, because this object must remain JSON.
            if isinstance(parsed, GoodArguments):
                self._data["input"] = parsed.input
        data = mend_object(cast(JsonObject, self._whole()))
        if data:  # otherwise it was nested too deeply to be sent again
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
        """Return the object including everything that was added."""
        complete = dict(self._data)
        for key, more in self._grown.items():
            there = complete[key]
            if isinstance(there, str):
                complete[key] = there + "".join(cast("list[str]", more))
            else:
                complete[key] = [*cast("list[object]", there), *more]
        return complete


def _weight(value: object) -> int:
    """Return the approximate number of characters of a value of any depth."""
    weight, left = 0, [value]
    while left:
        item = left.pop()
        weight += len(item) if isinstance(item, str) else 1
        if isinstance(item, dict):
            left += cast("dict[object, object]", item).keys()
            left += cast("dict[object, object]", item).values()
        elif isinstance(item, list):
            left += cast("list[object]", item)
    return weight


def _extra(begun: WireObject, known: set[str]) -> JsonObject:
    """Return the unknown fields of a block, which are sent back with the block."""
    return {
        key: cast(JsonValue, value)
        for key, value in begun.items()
        if key not in known and value is not None
    }


def _given_arguments(value: object) -> tuple[str, bool]:
    """Return the arguments as text, and whether they arrived as text."""
    if isinstance(value, str):
        return value, True
    if not value:
        return "", True
    return json.dumps(value, ensure_ascii=False), False

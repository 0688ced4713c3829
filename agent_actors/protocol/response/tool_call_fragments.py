"""Assign the fragments of a response to its tool calls.

A `SlotTable` owns the slots of one response, one per call. These rules determine the slot of a
fragment:

1. An id that was seen before selects its slot.
2. Otherwise an explicit index selects the slot. However, a new slot opens if the slot with that
   index has a different id. A new slot also opens if the slot with that index has a complete JSON
   object and the fragment begins another call: with a new name, or with the same name and either
   different complete arguments or different extra fields.
3. Otherwise the last slot is selected, with the same exceptions.

Endpoints send three patterns for which these rules would choose the wrong slot. `_find` handles
each one separately:

- Two calls with the same id: a different name after a complete object, or a different name with a
  different index, begins another call even if the id is the same.
- A call that begins with one index and continues with another: a fragment without id and name,
  whose index has no slot or a complete slot, continues the last slot while that slot is incomplete.
- A negative index is ignored.

`arguments` parses the arguments, `completeness` checks whether they are complete, and `call_ids`
chooses the final id of a call.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from agent_actors.domain.model import ToolCallDelta
from agent_actors.protocol.response.arguments import (
    GoodArguments,
    dump_object,
    is_complete_object,
    parse_arguments,
)
from agent_actors.protocol.response.completeness import WholeObjects
from agent_actors.protocol.response.text import mend_surrogates

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

_LEAKED_TOKEN: Final = "<|"
"""The start of a control token from the model's chat format; the name is cut off there."""

_MAX_NAME: Final = 1024
"""The number of characters after which a name no longer grows. No tool has such a long name, and
every chunk repeats the name.
"""


class Slot:
    """One tool call whose fragments are arriving.

    Attributes:
        number: The position among the calls, from 0, in the order of their first fragments.
        indexed: The index in the first fragment; None if there was none.
        id: The id from the endpoint; empty until it arrives.
        name: The name of the tool so far, without leaked tokens.
        extra: Fields that the endpoint wants to get back.
        repaired: True if any of the arguments were repaired.
        textual: True if the arguments arrived as text, False if any arrived as an object.
        call_id: The id that subscribers see; empty until it is first shown.
        given_for: The endpoint's id for which `call_id` was assigned; empty if `call_id` was
            generated.
        shown: True once any of the arguments were shown.
        damaged: True if a part of the call may be lost, or may belong to another call.
        after_damage: True if a part of the response was lost before the first fragment.
    """

    __slots__ = (
        "_looked_at",
        "_name",
        "_pieces",
        "_whole",
        "after_damage",
        "call_id",
        "damaged",
        "extra",
        "given_for",
        "id",
        "indexed",
        "name",
        "number",
        "repaired",
        "shown",
        "textual",
    )

    def __init__(self, number: int, *, indexed: int | None) -> None:
        self.number: int = number
        self.indexed: int | None = indexed
        self.id: str = ""
        self.name: str = ""
        self.extra: JsonObject = {}
        self.textual: bool = True
        self.repaired: bool = False
        self.call_id: str = ""
        self.given_for: str = ""
        self.shown: bool = False
        self.damaged: bool = False
        self.after_damage: bool = False
        self._name = ""
        self._pieces: list[str] = []
        # Tracks whether the chunks are complete, and the number of chunks that it has processed.
        self._whole = WholeObjects()
        self._looked_at = 0

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return "".join(self._pieces)

    @property
    def size(self) -> int:
        """The number of characters of the arguments so far."""
        return sum(map(len, self._pieces))

    @property
    def is_empty(self) -> bool:
        """True if no id, name or arguments have arrived."""
        return not (self.id or self._name or self._pieces)

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far are one or more complete JSON objects."""
        # Evaluated lazily: most slots are never checked, but some are checked for each chunk.
        for piece in self._pieces[self._looked_at :]:
            self._whole.feed(piece)
        self._looked_at = len(self._pieces)
        return self._whole.whole

    def is_renamed_by(self, name: str) -> bool:
        """Return whether this name differs from the slot's name."""
        return bool(name and self._name) and name != self._name

    def is_repeated_by(self, fragment: ToolCallDelta) -> bool:
        """Return whether a fragment begins another call of the same tool.

        Some endpoints send neither ids nor indexes, but send each call in a single fragment.
        Repeated arguments are ignored, and an empty object may be the start of the arguments:
        neither begins a call. If the extra fields differ, the fragment always begins a call,
        because each call has its own fields.
        """
        if not fragment.name or fragment.name != self._name:
            return False
        if fragment.extra and self.extra and fragment.extra != self.extra:
            return True
        piece = fragment.arguments
        if not piece:
            return False
        text = piece if isinstance(piece, str) else dump_object(piece)
        if text in self._pieces or not is_complete_object(text):
            return False
        known, more = _inputs(self.arguments), _inputs(text)
        return bool(known) and any(item not in known for item in more)

    def extend(self, pieces: Sequence[str]) -> None:
        """Add several chunks of argument text, which are shown."""
        self._pieces += pieces
        self.shown = True

    def add(self, fragment: ToolCallDelta) -> str:
        """Add a fragment; return its chunk of argument text.

        A repeated name is ignored. The name can grow only until the arguments begin.
        """
        name = fragment.name
        news = bool(name) and name != self._name and len(self._name) < _MAX_NAME
        if news and not (self._name and self._pieces):
            self._name += name
            self.name = mend_surrogates(self._name).partition(_LEAKED_TOKEN)[0].strip()
        if fragment.extra:
            self.extra.update(fragment.extra)
        piece = fragment.arguments
        if piece is None:
            return ""
        if not isinstance(piece, str):
            self.textual = False
            self.repaired = self.repaired or fragment.repaired
            piece = dump_object(piece)
        if piece:
            self._pieces.append(piece)
        return piece


class SlotTable:
    """The slots of one response, in the order of their first fragments."""

    __slots__ = ("_by_id", "_by_index", "_slots")

    def __init__(self) -> None:
        self._slots: list[Slot] = []
        self._by_id: dict[str, Slot] = {}
        self._by_index: dict[int, Slot] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def last(self) -> Slot | None:
        """The slot that was opened last; None if there is none."""
        return self._slots[-1] if self._slots else None

    def last_index(self) -> int | None:
        """Return an index that selects the slot that was opened last; None if there is none."""
        last = self.last
        index = None if last is None else last.indexed
        return index if index is not None and self._by_index.get(index) is last else None

    def slot_of(self, fragment: ToolCallDelta) -> Slot:
        """Return the slot that a fragment belongs to; open a new one if necessary."""
        index = fragment.index if fragment.index is not None and fragment.index >= 0 else None
        slot = self._find(fragment, index)
        if slot is None:
            slot = Slot(len(self._slots), indexed=index)
            self._slots.append(slot)
        if index is not None:
            self._by_index[index] = slot
        if fragment.id:
            self._by_id[fragment.id] = slot
            slot.id = slot.id or fragment.id
        return slot

    def _find(self, fragment: ToolCallDelta, index: int | None) -> Slot | None:
        """Return the existing slot for a fragment; None if the fragment begins a new one."""
        known = self._by_id.get(fragment.id) if fragment.id else None
        if known is not None:
            return None if self._is_other_call_of_same_id(known, fragment, index) else known
        last = self.last
        named = last if index is None else self._by_index.get(index)
        if not fragment.id and not fragment.name and named is not last and last is not None:
            # Only a continuation has this form. It cannot continue a missing or complete call.
            homeless = named is None or named.is_complete
            if homeless and last.name and not last.is_complete:
                return last
        if named is None or (fragment.id and named.id):
            return None
        return None if self._begins_anew(named, fragment) else named

    def _is_other_call_of_same_id(
        self, known: Slot, fragment: ToolCallDelta, index: int | None
    ) -> bool:
        if not known.is_renamed_by(fragment.name):
            return False
        elsewhere = index is not None and known.indexed is not None and index != known.indexed
        return elsewhere or known.is_complete

    def _begins_anew(self, slot: Slot, fragment: ToolCallDelta) -> bool:
        if not slot.is_complete:
            return False
        return slot.is_renamed_by(fragment.name) or slot.is_repeated_by(fragment)


def _inputs(text: str) -> "list[JsonObject]":
    """Return the non-empty objects in argument text."""
    found = parse_arguments(text)
    return [item.input for item in found if isinstance(item, GoodArguments) and item.input]

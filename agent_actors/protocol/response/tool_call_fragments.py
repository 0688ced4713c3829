"""Which fragment belongs to which tool call.

Owns the slots of one answer, one per call, and the rule by which a fragment finds its own:

1. an id seen before names the slot;
2. else the explicit index names it, but a new slot opens if that index already holds another id, or
   holds a complete JSON object and a new name arrives;
3. else the last slot, with the same two exceptions.

Three shapes that endpoints send would still go wrong, and each has its own line in `_find`:

- one id for two calls: a complete object and then another name, or another name under another
  index, is another call even where the id says otherwise;
- a call begun under one index and continued under another: a fragment with neither id nor name that
  names an index nobody holds, or whose call is complete, goes on with the last slot while that is
  unfinished;
- a negative index is none.

What the arguments mean is told in `arguments`, whether they are whole in `whole`; which id a call
ends up with, in `call_ids`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agent_actors.domain.model import ToolCallDelta
from agent_actors.protocol.response.arguments import dump_object
from agent_actors.protocol.response.completeness import WholeObjects
from agent_actors.protocol.response.text import mend_surrogates

if TYPE_CHECKING:
    from agent_actors.domain.json import JsonObject

_LEAKED_TOKEN: Final = "<|"
"""Opens a control token of the model's chat format; what follows in a name is not the name."""

_MAX_NAME: Final = 1024
"""Characters after which a name is not added to: no tool has it, and each piece shows it whole."""


class Slot:
    """One tool call while its fragments come in.

    Attributes:
        number: Its place among the calls, from 0, by first sight.
        indexed: The index under which it was opened; None if there was none.
        id: The endpoint's id; empty while none came.
        name: The tool's name as far as it came, without leaked tokens.
        extra: What the endpoint wants echoed back.
        repaired: True if any of the arguments are what was meant, and not what came.
        textual: True if the arguments came as text, False if any came as an object.
        call_id: The id under which the reader sees it; empty before the first time.
        given_for: The endpoint's id for which `call_id` was given; empty if it was made up.
        shown: True once the reader saw any of the arguments.
        damaged: True if some of the call may be lost, or may belong to another call.
        after_damage: True if something was lost before its first fragment.
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
        # Whether the pieces are whole; and how many of them were looked at for that.
        self._whole = WholeObjects()
        self._looked_at = 0

    @property
    def arguments(self) -> str:
        """The argument text so far."""
        return "".join(self._pieces)

    @property
    def size(self) -> int:
        """Characters of its arguments so far."""
        return sum(map(len, self._pieces))

    @property
    def is_empty(self) -> bool:
        """True if nothing came that makes it a call."""
        return not (self.id or self._name or self._pieces)

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far are a whole JSON object."""
        # Asked again and again while arguments grow, and seldom asked at all.
        for piece in self._pieces[self._looked_at :]:
            self._whole.feed(piece)
        self._looked_at = len(self._pieces)
        return self._whole.whole

    def is_renamed_by(self, name: str) -> bool:
        """True if this name is not the one that the slot has."""
        return bool(name and self._name) and name != self._name

    def add(self, fragment: ToolCallDelta) -> str:
        """Take a fragment; return its piece of argument text.

        A name is set once: a repeat of it is no news, more of it counts only before the arguments.
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
    """The slots of one answer, in the order in which they were first seen."""

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
        """The slot opened last; None before the first."""
        return self._slots[-1] if self._slots else None

    def slot_of(self, fragment: ToolCallDelta) -> Slot:
        """The slot that this fragment belongs to, opened if it is new."""
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
        """The slot that is there for this fragment; None if it begins a new one."""
        known = self._by_id.get(fragment.id) if fragment.id else None
        if known is not None:
            return None if self._is_other_call_of_same_id(known, fragment, index) else known
        last = self.last
        named = last if index is None else self._by_index.get(index)
        if not fragment.id and not fragment.name and named is not last and last is not None:
            # Only a continuation looks like this. It cannot continue what is not there or is whole.
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
        return slot.is_renamed_by(fragment.name) and slot.is_complete

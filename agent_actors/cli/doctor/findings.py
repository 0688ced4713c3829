"""The names of quirks by number, and the quirks that were observed. Pure.

The numbers are those of `docs/reference/quirks.md` and of provider profiles.
"""

from collections.abc import Mapping
from typing import Final

import attrs

QUIRKS: Final[Mapping[int, str]] = {
    1: "calls have no index",
    2: "several calls share an index",
    3: "an index is -1",
    4: "indexes of calls do not count up from 0",
    5: "the parts of a response have different choice indexes",
    6: "the fragments of one call have different indexes",
    7: "later fragments of a call contain an empty id",
    8: "later fragments of a call contain an empty id and an empty name",
    9: "absent fields are sent as null",
    10: "tool_calls is null in chunks without calls",
    11: "calls have no id",
    12: "id and name are repeated in each fragment",
    13: "a name is split into fragments",
    14: "a name is sent after the arguments",
    15: "arguments contain a second object, or are sent twice",
    16: "arguments are an object instead of a string",
    17: "arguments are encoded twice",
    18: "a call without parameters has no arguments",
    19: "an empty object comes before the arguments",
    20: "the first fragment of a call already contains arguments",
    21: "a call is sent complete, in one fragment",
    22: "ids of calls are not unique across responses",
    23: "ids of calls consist of nine letters and digits",
    24: "control tokens leak into a tool's name",
    25: "calls are written into the text",
    26: "arguments lack a quotation mark",
    27: "the finish reason of a response with calls is stop",
    28: "a truncated call looks complete",
    29: "the finish reason is an empty string",
    30: "the finish reason is the string null, or absent",
    31: "the finish reason is sent early, twice, or with the last delta",
    32: "the stream has no finish reason, or no [DONE]",
    33: "a chunk without choices comes first",
    34: "a delta or a chunk is null or absent",
    35: "token counts are sent more than once, or before the end",
    36: "token counts are in a choice",
    37: "thinking is sent as reasoning",
    38: "thinking is an object",
    39: "content is a list of parts",
    40: "an additional field must be sent back with the history",
    41: "text is repeated",
    42: "comments or blank lines are sent to keep the connection alive",
    43: "fields of the event stream have an unusual form",
    44: "lines end with CR",
    45: "an error is sent inside a response with status 200",
    46: "an error is sent in a line that is not a field",
    47: "the body is a document instead of a stream",
    48: "a character is split between two deltas",
    49: "text and calls are in one delta",
    50: "a call is sent in the legacy form",
}

_SHOWN: Final = 80
"""Maximum number of characters to keep of the data that showed a quirk: enough to recognise it."""


@attrs.frozen
class ObservedQuirk:
    """A quirk that was observed.

    Attributes:
        number: Its number.
        name: Its description.
        seen: The beginning of the data that showed the quirk.
    """

    number: int
    name: str
    seen: str


@attrs.define(eq=False)
class Findings:
    """The quirks that were observed so far, each with the data that showed it first."""

    _seen: dict[int, str] = attrs.field(factory=dict[int, str], init=False)

    def note(self, number: int, seen: object) -> None:
        """Add a quirk, unless it was observed before."""
        self._seen.setdefault(number, str(seen)[:_SHOWN])

    def __contains__(self, number: int) -> bool:
        return number in self._seen

    def observed_quirks(self) -> tuple[ObservedQuirk, ...]:
        """Return the observed quirks, by number."""
        return tuple(
            ObservedQuirk(number, QUIRKS[number], seen)
            for number, seen in sorted(self._seen.items())
        )

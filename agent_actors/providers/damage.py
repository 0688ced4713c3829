"""The data lines of one response that could not be read completely.

Counts them and makes the notices about them. Which calls they may have belonged to is decided by
the part of each protocol that knows the calls.
"""

from collections.abc import Sequence
from typing import Final

from agent_actors.domain.model import NoticeDelta
from agent_actors.protocol.response.text import mend_surrogates
from agent_actors.protocol.sse import Fault

_SHOWN_CHARACTERS: Final = 200
"""Characters of a line that a notice shows."""

_MAX_NOTICES: Final = 8
"""Notices of a response: enough to see what is wrong, and no flood where every line is."""

NOT_JSON: Final = "a data line that is no JSON was skipped"
NOT_A_FIELD: Final = "a line that is no part of an event stream was skipped"
NO_DATA: Final = "an event without data was skipped"
NOT_UTF8: Final = "a data line had bytes that are not UTF-8"


class DamagedLines:
    """Damaged lines of one response.

    Attributes:
        count: How many there were.
        first: The beginning of the first of them; empty if there was none.
    """

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count: int = 0
        self.first: str = ""

    def add(self, what: str, line: str) -> Sequence[NoticeDelta]:
        """Count a line.

        Args:
            what: What is wrong with it.
            line: Its text.

        Returns:
            The notice of it; none after the first few.
        """
        line = mend_surrogates(line[:_SHOWN_CHARACTERS])
        self.first = self.first or line
        self.count += 1
        if self.count > _MAX_NOTICES:
            return ()
        last = "; further ones are not told of" if self.count == _MAX_NOTICES else ""
        return (NoticeDelta(f"{what}{last}: {line!r}"),)


def damage_of(lost: Sequence[str], fault: Fault) -> str:
    """Say what is wrong with a line that is JSON; empty if nothing is.

    Args:
        lost: The fields whose values could not be read.
        fault: What the event stream's decoder found.
    """
    if lost:
        return f"a part of a data line could not be read ({', '.join(dict.fromkeys(lost))})"
    return NOT_UTF8 if fault == "bytes" else ""

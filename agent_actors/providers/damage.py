"""Data lines of a response that could not be read completely.

This module counts damaged lines and creates notices about them. The decoder of each protocol
decides which tool calls a damaged line may have belonged to.
"""

from collections.abc import Callable, Sequence
from typing import Final

from agent_actors.domain.model import NoticeDelta
from agent_actors.protocol.response.text import mend_surrogates
from agent_actors.protocol.sse import Fault

_SHOWN_CHARACTERS: Final = 200
"""The number of characters of a line that a notice shows."""

_MAX_NOTICES: Final = 8
"""The maximum number of notices per response. If every line is damaged, a few notices suffice."""

NOT_JSON: Final = "a data line that is not JSON was skipped"
NOT_A_FIELD: Final = "a line that is not part of an event stream was skipped"
NO_DATA: Final = "an event without data was skipped"
NOT_UTF8: Final = "a data line contained bytes that are not UTF-8"


def unchanged(text: str) -> str:
    """Return the text unchanged, because there are no credentials to remove."""
    return text


class DamagedLines:
    """The damaged lines of one response.

    Args:
        redact: Removes credentials from a line.

    Attributes:
        count: The number of damaged lines.
        first: The beginning of the first damaged line; empty if there is none.
    """

    __slots__ = ("_redact", "count", "first")

    def __init__(self, redact: Callable[[str], str] = unchanged) -> None:
        self._redact = redact
        self.count: int = 0
        self.first: str = ""

    def add(self, what: str, line: str) -> Sequence[NoticeDelta]:
        """Count a damaged line.

        Args:
            what: A description of the damage.
            line: The text of the line.

        Returns:
            A notice about the line; empty after the first few lines.
        """
        line = self._redact(mend_surrogates(line[:_SHOWN_CHARACTERS]))
        self.first = self.first or line
        self.count += 1
        if self.count > _MAX_NOTICES:
            return ()
        last = "; further damaged lines are not reported" if self.count == _MAX_NOTICES else ""
        return (NoticeDelta(f"{what}: {line!r}{last}"),)


def damage_of(lost: Sequence[str], fault: Fault) -> str:
    """Describe the damage to a line that is JSON; empty if the line is undamaged.

    Args:
        lost: The fields whose values could not be read.
        fault: The fault that the decoder of the event stream found.
    """
    if lost:
        return f"a part of a data line could not be read ({', '.join(dict.fromkeys(lost))})"
    return NOT_UTF8 if fault == "bytes" else ""

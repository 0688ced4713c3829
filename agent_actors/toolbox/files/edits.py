"""Exact replacements in a text. No I/O.

Models write line feeds, also for files whose lines end with a carriage return and a line feed. If
neither text of an edit contains a carriage return, a line feed therefore matches any line break of
the file, and new line breaks have the file's form. Text that an edit does not replace is kept byte
for byte.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.json import JsonObject, JsonValue

LineBreak: TypeAlias = Literal["\n", "\r\n", "\r"]

_ALL: Final = 0
_SHOWN_LINES: Final = 20


@attrs.frozen(kw_only=True)
class Edit:
    """A replacement of text.

    Attributes:
        old: The text to replace; not empty.
        new: The new text.
        count: Maximum number of occurrences to replace, from the first one on; 0 for all.
        before: A text that must end before each replaced occurrence; empty for none.
        after: A text that must begin after each replaced occurrence; empty for none.
    """

    old: str
    new: str
    count: int = 1
    before: str = ""
    after: str = ""


@attrs.frozen
class Edited:
    """The outcome of an edit that was applied.

    Attributes:
        text: The new text.
        lines: The numbers of the lines where the replaced occurrences began.
        further: The numbers of the lines where the other occurrences begin.
    """

    text: str
    lines: tuple[int, ...]
    further: tuple[int, ...]

    @property
    def summary(self) -> JsonObject:
        """The number of replacements, and the lines of at most 20 further occurrences if any."""
        summary: JsonObject = {"replacements": len(self.lines)}
        if self.further:
            shown: list[JsonValue] = list(self.further[:_SHOWN_LINES])
            summary |= {"further_matches": len(self.further), "further_lines": shown}
        return summary


EditMiss: TypeAlias = Literal["old", "before", "after", "order"]
"""The text of the edit that does not occur in the file; `order` if all occur in another order."""


def apply_edit(text: str, edit: Edit) -> Edited | EditMiss:
    """Replace occurrences of a text, which do not overlap.

    Returns:
        The new text; or the reason why nothing can be replaced.
    """
    if "\r" in edit.old or "\r" in edit.new:
        exact = _applied(_Breaks.none(text), edit, edit.new)
        if isinstance(exact, Edited):
            return exact
    breaks = _Breaks.of(text)
    plain = Edit(
        old=_plain(edit.old),
        new=_plain(edit.new),
        count=edit.count,
        before=_plain(edit.before),
        after=_plain(edit.after),
    )
    return _applied(breaks, plain, plain.new.replace("\n", breaks.usual))


def usual_line_break(text: str) -> LineBreak:
    """Return the most frequent line break of a text; a line feed if there is none."""
    pairs = text.count("\r\n")
    feeds = text.count("\n")
    if not feeds:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if 2 * pairs > feeds else "\n"


@attrs.frozen
class _Breaks:
    """A text with line feeds only, and the way back to the original text.

    Attributes:
        original: The original text.
        plain: The text in which every line break is a line feed.
        usual: The form of new line breaks.
        removed: The positions in `plain` of line feeds that had a carriage return before them.
    """

    original: str
    plain: str
    usual: LineBreak
    removed: tuple[int, ...]

    @classmethod
    def none(cls, text: str) -> "_Breaks":
        """Return the text without conversions."""
        return cls(text, text, "\n", ())

    @classmethod
    def of(cls, text: str) -> "_Breaks":
        usual = usual_line_break(text)
        if usual == "\r":  # the positions are the same
            return cls(text, text.replace("\r", "\n"), usual, ())
        pairs = _positions(text, "\r\n")
        removed = tuple(at - skipped for skipped, at in enumerate(pairs))
        return cls(text, text.replace("\r\n", "\n"), usual, removed)

    def back(self, position: int) -> int:
        """Return a position in the original text for a position in the plain one."""
        return position + bisect_left(self.removed, position)


def _applied(breaks: _Breaks, edit: Edit, new: str) -> Edited | EditMiss:
    plain = breaks.plain
    found = tuple(_positions(plain, edit.old))
    if not found:
        return "old"
    first = plain.find(edit.before) if edit.before else 0
    last = plain.rfind(edit.after) if edit.after else len(plain)
    if first < 0:
        return "before"
    if last < 0:
        return "after"
    first += len(edit.before)
    within = [at for at in found if first <= at and at + len(edit.old) <= last]
    if not within:
        return "order"
    chosen = within if edit.count == _ALL else within[: edit.count]
    parts: list[str] = []
    done = 0
    for at in chosen:
        parts += [breaks.original[done : breaks.back(at)], new]
        done = breaks.back(at + len(edit.old))
    parts.append(breaks.original[done:])
    taken = set(chosen)
    return Edited(
        "".join(parts),
        _lines(plain, chosen),
        _lines(plain, [at for at in found if at not in taken]),
    )


def _positions(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _lines(text: str, positions: list[int]) -> tuple[int, ...]:
    numbers: list[int] = []
    number, done = 1, 0
    for at in positions:
        number += text.count("\n", done, at)
        done = at
        numbers.append(number)
    return tuple(numbers)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")

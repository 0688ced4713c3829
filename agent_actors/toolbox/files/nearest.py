"""The lines of a file that are most similar to a text that was not found. No I/O.

A model that edits a file from memory often misses a blank or a word. The nearest lines show the
file's own text, so that the next attempt succeeds.
"""

from collections import Counter
from difflib import SequenceMatcher
from typing import Final

import attrs

# The number of lines whose similarity is computed precisely. The others are excluded by a cheap
# upper bound, so that a search in a file of 100,000 lines takes well below a second.
_CANDIDATES: Final = 30
_SIMILAR: Final = 0.5
_MAX_SHOWN_LINES: Final = 10
_MAX_COMPARED: Final = 500
"""Maximum number of characters of a line that are compared and shown."""


@attrs.frozen
class NearLines:
    """Consecutive lines that are similar to a text.

    Attributes:
        first: The number of the first line, from 1.
        lines: The lines.
    """

    first: int
    lines: tuple[str, ...]


def nearest_lines(lines: list[str], wanted: list[str], *, count: int = 3) -> tuple[NearLines, ...]:
    """Return the parts of a text that are most similar to the wanted lines, the best one first.

    The longest wanted line is compared with every line. A part has as many lines as are wanted, at
    most 10.

    Args:
        lines: The lines of the text.
        wanted: The lines that were not found.
        count: Maximum number of parts.
    """
    keys = [line.strip()[:_MAX_COMPARED] for line in wanted]
    key = max(keys, key=len, default="")
    if not key:
        return ()
    at = keys.index(key)
    bound = Counter(key)
    stripped = [line.strip()[:_MAX_COMPARED] for line in lines]
    # The number of common characters limits the similarity from above.
    rough = [
        2 * (bound & Counter(line)).total() / (len(key) + len(line)) if line else 0.0
        for line in stripped
    ]
    candidates = sorted(range(len(lines)), key=lambda index: (-rough[index], index))[:_CANDIDATES]
    scored: list[tuple[float, int]] = []
    for index in candidates:
        ratio = SequenceMatcher(None, key, stripped[index], autojunk=False).ratio()
        if ratio >= _SIMILAR:
            scored.append((-ratio, index))
    parts: list[NearLines] = []
    for _, index in sorted(scored)[:count]:
        start = max(0, index - at)
        shown = lines[start : start + min(len(wanted), _MAX_SHOWN_LINES)]
        parts.append(NearLines(start + 1, tuple(line[:_MAX_COMPARED] for line in shown)))
    return tuple(dict.fromkeys(parts))

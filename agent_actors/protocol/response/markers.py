"""Marks in text that streams: what stands before one is let through, what may be one waits.

Knows nothing of what the marks mean.
"""

from collections.abc import Sequence


def split_at_mark(text: str, marks: Sequence[str]) -> tuple[str, str, str]:
    """Split text at the first of these marks.

    Args:
        text: What has come, with what waited.
        marks: What is looked for; of two that begin at one place, the longer one counts.

    Returns:
        What stands before the mark; the mark; what stands behind it. If there is none, the mark is
        empty, and what is left is the end of the text that may be the beginning of one.
    """
    first, mark = len(text), ""
    for one in marks:
        at = text.find(one, 0, first + len(one))
        if at >= 0 and (at < first or len(one) > len(mark)):
            first, mark = at, one
    if mark:
        return text[:first], mark, text[first + len(mark) :]
    waits = max((_begun(text, one) for one in marks), default=0)
    return text[: len(text) - waits], "", text[len(text) - waits :]


def _begun(text: str, mark: str) -> int:
    """How many characters at the end of the text are the beginning of this mark."""
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0

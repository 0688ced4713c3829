"""Find markers in streamed text: text before one is passed on, a possible beginning is held back.

This module does not know the meaning of the markers.
"""

from collections.abc import Sequence


def split_at_mark(text: str, marks: Sequence[str]) -> tuple[str, str, str]:
    """Split text at the first of these markers.

    Args:
        text: The new text, after the text that was held back.
        marks: The markers; of two at the same position, the longer one counts.

    Returns:
        The text before the marker; the marker; the text after it. If there is none, the marker is
        empty, and the last item is the end of the text that may be the beginning of a marker.
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
    """Return how many characters at the end of the text are the beginning of this marker."""
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0

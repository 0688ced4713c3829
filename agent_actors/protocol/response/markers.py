"""Find markers in streamed text.

Text before a marker is passed on. Text that may be the beginning of a marker is held back. This
module does not know what the markers mean.
"""

from collections.abc import Sequence


def split_at_mark(text: str, marks: Sequence[str]) -> tuple[str, str, str]:
    """Split text at the first of these markers.

    Args:
        text: The text to search: the text that was held back, followed by the new text.
        marks: The markers; if two begin at the same position, the longer one counts.

    Returns:
        The text before the marker, the marker, and the text after it. If there is no marker, the
        second item is empty, and the third is the end of the text if it may be the beginning of a
        marker.
    """
    first, mark = len(text), ""
    for candidate in marks:
        at = text.find(candidate, 0, first + len(candidate))
        if at >= 0 and (at < first or len(candidate) > len(mark)):
            first, mark = at, candidate
    if mark:
        return text[:first], mark, text[first + len(mark) :]
    waits = max((_begun(text, candidate) for candidate in marks), default=0)
    return text[: len(text) - waits], "", text[len(text) - waits :]


def _begun(text: str, mark: str) -> int:
    """Return how many characters at the end of the text may be the beginning of this marker."""
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0

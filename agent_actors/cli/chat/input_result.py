"""The results of reading a line of input."""

from typing import TypeAlias

import attrs


@attrs.frozen
class Typed:
    """One or more lines of text."""

    text: str


@attrs.frozen
class Interrupted:
    """Ctrl-C; `dropped` is True if it discarded typed text."""

    dropped: bool = False


@attrs.frozen
class End:
    """Ctrl-D on an empty line, the end of the input, or a closed terminal."""


InputResult: TypeAlias = Typed | Interrupted | End

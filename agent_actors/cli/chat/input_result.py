"""What came of reading a line."""

from typing import TypeAlias

import attrs


@attrs.frozen
class Typed:
    """A line, or several."""

    text: str


@attrs.frozen
class Interrupted:
    """Ctrl-C; `dropped` if something stood in the line."""

    dropped: bool = False


@attrs.frozen
class End:
    """Ctrl-D on an empty line, the end of the input, or a terminal that has gone."""


Reading: TypeAlias = Typed | Interrupted | End

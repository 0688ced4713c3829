"""Generate the page and the picture of the turn machine from its table; `--check` compares."""

import sys
from pathlib import Path
from typing import Final

from agent_actors.protocol.turn import TABLE, State
from scripts.diagram import Box, Way, diagram
from scripts.generated import write_or_compare

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "reference/turn-machine.md"
PICTURE: Final = DOCS / "assets/turn-machine.svg"

_ABOUT: Final = "The states of the turn machine, and which events lead from one to another."
_BEGIN: Final = "begin"
_END: Final = "end"
_BOXES: Final[dict[str, Box]] = {
    _BEGIN: Box((330, 50), dot=True),
    State.READY: Box((480, 50)),
    State.MODEL: Box((230, 220)),
    State.TOOLS: Box((760, 220)),
    State.OUTPUT: Box((230, 410)),
    State.DONE: Box((760, 410)),
    _END: Box((760, 480), dot=True),
}
_WAYS: Final[dict[tuple[str, str], Way]] = {
    (State.READY, State.MODEL): Way(label=(330, 135), anchor="end"),
    (State.READY, State.TOOLS): Way(label=(645, 135), anchor="start"),
    (State.READY, State.DONE): Way(via=((1030, 50), (1030, 410)), label=(800, 22)),
    (State.MODEL, State.MODEL): Way(via=((115, 205), (115, 235)), label=(105, 216), anchor="end"),
    (State.OUTPUT, State.OUTPUT): Way(via=((115, 395), (115, 425)), label=(105, 414), anchor="end"),
    (State.TOOLS, State.TOOLS): Way(via=((875, 205), (875, 235)), label=(885, 200), anchor="start"),
    (State.DONE, State.DONE): Way(via=((875, 395), (875, 425)), label=(885, 434), anchor="start"),
    (State.MODEL, State.TOOLS): Way(shift=-8),
    (State.TOOLS, State.MODEL): Way(shift=-8, label=(495, 246)),
    (State.MODEL, State.OUTPUT): Way(shift=10, label=(210, 320), anchor="end"),
    (State.OUTPUT, State.MODEL): Way(shift=10, label=(250, 312), anchor="start"),
    (State.MODEL, State.DONE): Way(shift=-8, label=(545, 296)),
    (State.DONE, State.MODEL): Way(shift=-8, label=(345, 274)),
    (State.OUTPUT, State.DONE): Way(label=(495, 430)),
}

_INTRO: Final = """\
# The turn machine

The agent loop is a state machine. It takes events, returns commands, and never waits. The driver of
a run feeds events to it and executes the commands. If the table has no entry for an event in a
state, the driver has a bug, and the machine raises `IllegalTransition`.

`make docs` generates this page from `TABLE` in `agent_actors/protocol/turn.py`. Do not edit it.

"""


def page() -> str:
    """Return the page."""
    rows = ["| state | event | action | next states |", "|---|---|---|---|"]
    for state, cells in TABLE.items():
        for event_type, transition in cells.items():
            to = ", ".join(transition.to)
            rows.append(f"| {state} | `{event_type.__name__}` | {transition.about} | {to} |")
    shown = f"![{_ABOUT}](../{PICTURE.relative_to(DOCS).as_posix()})"
    return f"{_INTRO}{shown}\n\n" + "\n".join(rows) + "\n"


def drawn() -> str:
    """Return the picture, with an arrow for each transition of the table."""
    arrows: dict[tuple[str, str], list[str]] = {(_BEGIN, State.READY): []}
    for state, cells in TABLE.items():
        for event_type, transition in cells.items():
            for to in transition.to:
                arrows.setdefault((state, to), []).append(event_type.__name__)
    arrows[State.DONE, _END] = []
    return diagram(_BOXES, arrows, _WAYS, _ABOUT, size=(1060, 510))


if __name__ == "__main__":
    sys.exit(write_or_compare({PAGE: page(), PICTURE: drawn()}, "the machine's table"))

"""Write the reference page of the turn machine from its table; `--check` fails if it is stale."""

import sys
from pathlib import Path
from typing import Final

from agent_actors.protocol.turn import TABLE, State

PAGE: Final = Path(__file__).parents[1] / "docs/reference/turn-machine.md"

_INTRO: Final = """\
# The turn machine

The agent loop as a transition table: events in, commands out, no awaits. The driver of a run feeds
it and carries out the commands that come back. An event that the table does not have for a state is
a bug of the driver, and raises `IllegalTransition`, naming both.

This page is made from `TABLE` in `agent_actors/protocol/turn.py` by `make docs`; do not edit it.

"""


def page() -> str:
    """The page as the table has it."""
    rows = ["| in state | event | what happens | may lead to |", "|---|---|---|---|"]
    for state, cells in TABLE.items():
        for event_type, transition in cells.items():
            to = ", ".join(transition.to)
            rows.append(f"| {state} | `{event_type.__name__}` | {transition.about} | {to} |")
    return f"{_INTRO}```mermaid\n{diagram()}```\n\n" + "\n".join(rows) + "\n"


def diagram() -> str:
    """The table as a Mermaid state diagram, an arrow for each way that it allows."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.READY}"]
    for state, cells in TABLE.items():
        for event_type, transition in cells.items():
            lines += [f"    {state} --> {to}: {event_type.__name__}" for to in transition.to]
    lines.append(f"    {State.DONE} --> [*]")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare it."""
    if "--check" not in sys.argv[1:]:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{PAGE.name} is not what the table says; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

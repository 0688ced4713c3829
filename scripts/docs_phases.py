"""Generate the page and the picture of the hook phases from their table; `--check` compares."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent_actors.hooks.phases import ALIASES, PHASES, Phase
from scripts.diagram import Box, Way, diagram
from scripts.generated import write_or_compare

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "reference/hook-phases.md"
PICTURE: Final = DOCS / "assets/hook-phases.svg"

_INTRO: Final = """\
# Hook phases

These are the phases in which hooks can take part in a run, in their order.
[Intercept steps with hooks](../how-to/hooks.md) explains how to write a hook.

`make docs` generates this page from `PHASES` in `agent_actors/hooks/phases.py`. Do not edit it.

"""

_ABOUT: Final = "The phases of hooks, from the start of a session to its end."
_ARROWS: Final = (
    (Phase.SESSION_START, "", Phase.USER_PROMPT_SUBMIT),
    (Phase.USER_PROMPT_SUBMIT, "", Phase.BEFORE_AGENT),
    (Phase.BEFORE_AGENT, "", Phase.MODIFY_REQUEST),
    (Phase.MODIFY_REQUEST, "", Phase.BEFORE_MODEL),
    (Phase.BEFORE_MODEL, "", Phase.WRAP_MODEL_CALL),
    (Phase.WRAP_MODEL_CALL, "response", Phase.AFTER_MODEL),
    (Phase.AFTER_MODEL, "tool calls", Phase.BEFORE_TOOL),
    (Phase.BEFORE_TOOL, "allowed", Phase.WRAP_TOOL_CALL),
    (Phase.WRAP_TOOL_CALL, "result", Phase.AFTER_TOOL),
    (Phase.AFTER_TOOL, "all calls have ended", Phase.MODIFY_REQUEST),
    (Phase.WRAP_TOOL_CALL, "tool starts a run", Phase.SUBAGENT_START),
    (Phase.SUBAGENT_START, "nested run", Phase.SUBAGENT_STOP),
    (Phase.AFTER_MODEL, "no calls", Phase.ON_STOP),
    (Phase.ON_STOP, "", Phase.AFTER_AGENT),
    (Phase.AFTER_AGENT, "session leaves the runtime", Phase.SESSION_END),
    (Phase.ON_COMPACT, "", Phase.MODIFY_REQUEST),
)
"""The arrows of the picture with their labels. The table cannot express arrows that lead back."""
_PLACES: Final = {
    Phase.SESSION_START: (330, 45),
    Phase.USER_PROMPT_SUBMIT: (330, 115),
    Phase.BEFORE_AGENT: (330, 185),
    Phase.MODIFY_REQUEST: (330, 255),
    Phase.BEFORE_MODEL: (330, 325),
    Phase.WRAP_MODEL_CALL: (330, 395),
    Phase.AFTER_MODEL: (330, 475),
    Phase.BEFORE_TOOL: (620, 475),
    Phase.WRAP_TOOL_CALL: (620, 395),
    Phase.AFTER_TOOL: (620, 315),
    Phase.ON_STOP: (330, 555),
    Phase.ON_COMPACT: (110, 255),
    Phase.SUBAGENT_START: (940, 395),
    Phase.SUBAGENT_STOP: (940, 475),
    Phase.AFTER_AGENT: (330, 625),
    Phase.SESSION_END: (330, 705),
}
_WAYS: Final[dict[tuple[str, str], Way]] = {
    (Phase.AFTER_TOOL, Phase.MODIFY_REQUEST): Way(via=((620, 255),)),
}


def page() -> str:
    """Return the page."""
    shown = f"![{_ABOUT}](../{PICTURE.relative_to(DOCS).as_posix()})"
    about = "A hexagon is a hook that wraps its step and calls it."
    return _INTRO + "\n".join([shown, "", about, "", *_table(), ""])


def drawn() -> str:
    """Return the picture of the phases."""
    arrows: dict[tuple[str, str], list[str]] = {(start, end): [by] for start, by, end in _ARROWS}
    if lost := set(PHASES) - {phase for ends in arrows for phase in ends}:
        raise ValueError(f"no arrow leads to or from {', '.join(sorted(lost))}")
    boxes: dict[str, Box] = {
        phase: Box(at, hexagon=PHASES[phase].wraps) for phase, at in _PLACES.items()
    }
    return diagram(boxes, arrows, _WAYS, _ABOUT, size=(1050, 750))


def _table() -> Iterator[str]:
    yield "| | phase | alias | when it runs | what a hook may do | can be limited to some tools |"
    yield "|---|---|---|---|---|---|"
    for number, (phase, info) in enumerate(PHASES.items(), 1):
        also = ", ".join(f"`{alias}`" for alias, meant in ALIASES.items() if meant is phase)
        matcher = "with a matcher" if info.matches else ""
        yield f"| {number} | `{phase}` | {also} | {info.when} | {info.may} | {matcher} |"


if __name__ == "__main__":
    sys.exit(write_or_compare({PAGE: page(), PICTURE: drawn()}, "the table of phases"))

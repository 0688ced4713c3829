"""Write the reference page of hooks' phases from their table; `--check` fails if it is stale."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agent_actors.hooks.phases import ALIASES, PHASES, Phase

PAGE: Final = Path(__file__).parents[1] / "docs/reference/hook-phases.md"

_INTRO: Final = """\
# The phases of hooks

Where a hook may take part in a run, in the order in which the phases come. How to write one is
told [elsewhere](../how-to/hooks.md).

This page is made from `PHASES` in `agent_actors/hooks/phases.py` by `make docs`; do not edit it.

"""

_PICTURE: Final = (
    (Phase.SESSION_START, "", Phase.USER_PROMPT_SUBMIT),
    (Phase.USER_PROMPT_SUBMIT, "", Phase.BEFORE_AGENT),
    (Phase.BEFORE_AGENT, "", Phase.MODIFY_REQUEST),
    (Phase.MODIFY_REQUEST, "", Phase.BEFORE_MODEL),
    (Phase.BEFORE_MODEL, "", Phase.WRAP_MODEL_CALL),
    (Phase.WRAP_MODEL_CALL, "the answer", Phase.AFTER_MODEL),
    (Phase.AFTER_MODEL, "it calls tools", Phase.BEFORE_TOOL),
    (Phase.BEFORE_TOOL, "allowed", Phase.WRAP_TOOL_CALL),
    (Phase.WRAP_TOOL_CALL, "the result", Phase.AFTER_TOOL),
    (Phase.AFTER_TOOL, "all calls have ended", Phase.MODIFY_REQUEST),
    (Phase.WRAP_TOOL_CALL, "the tool starts a run", Phase.SUBAGENT_START),
    (Phase.SUBAGENT_START, "that run", Phase.SUBAGENT_STOP),
    (Phase.AFTER_MODEL, "it calls none", Phase.ON_STOP),
    (Phase.ON_STOP, "", Phase.AFTER_AGENT),
    (Phase.AFTER_AGENT, "once the session is left", Phase.SESSION_END),
    (Phase.ON_COMPACT, "", Phase.MODIFY_REQUEST),
)
"""What leads to what, and by what; the rows of the table have no place for a way back."""


def page() -> str:
    """The page as the table has it."""
    missing = set(PHASES) - {phase for arrow in _PICTURE for phase in (arrow[0], arrow[2])}
    if missing:
        raise ValueError(f"the picture has no place for {', '.join(sorted(missing))}")
    return _INTRO + "\n".join([*_picture(), "", *_table(), ""])


def _picture() -> Iterator[str]:
    yield "```mermaid"
    yield "flowchart TD"
    for phase, info in PHASES.items():
        yield f"    {phase}{{{{{phase}}}}}" if info.wraps else f"    {phase}[{phase}]"
    for start, by, end in _PICTURE:
        yield f"    {start} -->{f'|{by}|' if by else ''} {end}"
    yield "```"
    yield ""
    yield "A hexagon stands around its step, and calls it itself."


def _table() -> Iterator[str]:
    yield "| | phase | also called | when it comes | what a hook may do | for some tools only |"
    yield "|---|---|---|---|---|---|"
    for number, (phase, info) in enumerate(PHASES.items(), 1):
        also = ", ".join(f"`{alias}`" for alias, meant in ALIASES.items() if meant is phase)
        matcher = "by a matcher" if info.matches else ""
        yield f"| {number} | `{phase}` | {also} | {info.when} | {info.may} | {matcher} |"


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

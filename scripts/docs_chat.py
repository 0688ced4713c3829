"""Run a chat in a terminal, write its output into the how-to page, and draw it.

With `--check`, the script only compares the files. The endpoint is scripted, so the output is
always the same, and all durations are replaced by a constant.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.text import Text

from agent_actors.testing import (
    ReplyTurn,
    ScriptedEndpoint,
    call,
    hang,
    reply,
    say,
    usage,
)
from scripts.generated import write_or_compare
from scripts.pseudo_terminal import CTRL_C, CTRL_D, ENTER, Session, in_terminal
from scripts.terminal_picture import picture

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "how-to/chat.md"
PICTURE: Final = DOCS / "assets/chat.svg"

_CAPTURE: Final = re.compile(
    r"(<!-- captured by scripts/docs_chat\.py -->\n```text\n).*?(```\n)", re.DOTALL
)
_TIMES: Final = re.compile(r"\b\d+(?:\.\d)? m?s\b")
_PATIENCE: Final = 60.0
_PLAIN: Final = Console()
# The chat prints the session's id when it ends; a generated id would differ between runs.
_SESSION: Final = ("--session", "tea")
_WIDTH: Final = 84
# Lines of the terminal: enough that nothing scrolls away.
_HEIGHT: Final = 70
_ABOUT: Final = (
    "A chat in a terminal: a response with a list and a table; two tools, one of which needs an"
    " approval; a response that is interrupted and rewound; and the tokens that the session used."
)

_SCRIPT: Final[list[ReplyTurn]] = [
    reply(
        say(
            "A good pot of **green tea** takes three things:\n\n"
            "1. water at 80 °C,\n2. two minutes,\n3. a warm cup.\n\n"
            "| leaves | water |\n|---|---|\n| 4 g | 250 ml |\n",
            chunks=40,
        ),
        usage(412, 58),
    ),
    # One call after the other, because the order of parallel calls may vary.
    [call("calculate", {"formula": "6 * 4"}), usage(498, 21)],
    [call("take_note", {"text": "24 g of tea"}), usage(531, 22)],
    reply(say("For six cups you need **24 g**. I made a note of it."), usage(560, 17)),
    reply(say("Once upon a time, in the hills of "), hang()),
    reply(say("Steep, sip, smile."), usage(604, 6)),
]


async def captured() -> list[Text]:
    """Return the final screen of the chat, line by line."""
    with trio.fail_after(_PATIENCE), tempfile.TemporaryDirectory() as home:
        async with ScriptedEndpoint(_SCRIPT) as endpoint:
            environment = {
                "PATH": os.defpath,
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "HOME": home,
            }
            where = ["--base-url", endpoint.base_url, "--model", "qwen3-32b"]
            command = [
                sys.executable,
                "-m",
                "agent_actors",
                "chat",
                *where,
                "--demo-tools",
                *_SESSION,
            ]
            async with in_terminal(command, environment, width=_WIDTH, height=_HEIGHT) as it:
                await _talk(it)
                return [_timeless(line) for line in _filled(it.screen.styled)]


async def _talk(it: Session) -> None:
    await _prompt(it)
    it.type(f"How do I brew green tea?{ENTER}")
    await _prompt(it)
    it.type(f"And for six cups? Note it down.{ENTER}")
    await it.until("yes/session/always/no>")
    it.type(f"y{ENTER}")
    await _prompt(it)
    it.type(f"Tell me a long story.{ENTER}")
    await it.until("in the hills of")
    it.type(CTRL_C)
    await _prompt(it)
    it.type(f"/rewind{ENTER}")
    await it.until("rewound to before")
    await it.until_true(lambda: it.screen.lines[it.screen.cursor[0]] == "> Tell me a long story.")
    it.type(f"\x15Tell me a short one.{ENTER}")
    await _prompt(it)
    it.type(f"/modle{ENTER}")
    await _prompt(it)
    it.type(f"/tokens{ENTER}")
    await _prompt(it)
    it.type(CTRL_D)
    await it.end()


async def _prompt(it: Session) -> None:
    await it.until_true(lambda: it.screen.lines[it.screen.cursor[0]] == ">")


def _filled(lines: list[Text]) -> list[Text]:
    """Remove the blank lines at the end."""
    return lines[: max(number for number, line in enumerate(lines, 1) if line.plain)]


def _timeless(line: Text) -> Text:
    """Replace each duration by a constant."""
    for found in reversed(list(_TIMES.finditer(line.plain))):
        same = Text("12 ms", line.get_style_at_offset(_PLAIN, found.start()))
        line = Text.assemble(line[: found.start()], same, line[found.end() :])
    return line


def made() -> dict[Path, str]:
    """Return the page with a new capture, and the picture."""
    lines = trio.run(captured)
    text = "".join(f"{line.plain}\n" for line in lines)
    before = PAGE.read_text(encoding="utf-8")
    page = _CAPTURE.sub(lambda found: found[1] + text + found[2], before)
    return {PAGE: page, PICTURE: picture(lines, _ABOUT)}


if __name__ == "__main__":
    sys.exit(write_or_compare(made(), "the chat"))

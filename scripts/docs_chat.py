"""Hold a chat in a terminal and write what it shows into its how-to page; `--check` compares.

The endpoint is a scripted one, so that the same is said every time; times are those of no machine.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import trio

from agent_actors.testing import (
    ReplyTurn,
    ScriptedEndpoint,
    call,
    hang,
    interleave,
    reply,
    say,
    usage,
)
from scripts.pseudo_terminal import CTRL_C, CTRL_D, ENTER, Session, in_terminal

PAGE: Final = Path(__file__).parents[1] / "docs/how-to/chat.md"

_CAPTURE: Final = re.compile(
    r"(<!-- captured by scripts/docs_chat\.py -->\n```text\n).*?(```\n)", re.DOTALL
)
_TIMES: Final = re.compile(r"\b\d+(?:\.\d)? m?s\b")
_PATIENCE: Final = 60.0
_WIDTH: Final = 84
_HEIGHT: Final = 30

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
    [
        interleave(
            call("calculate", {"formula": "6 * 4"}), call("take_note", {"text": "24 g of tea"})
        ),
        usage(498, 41),
    ],
    reply(say("For six cups you need **24 g**. I made a note of it."), usage(560, 17)),
    reply(say("Once upon a time, in the hills of "), hang()),
    reply(say("Steep, sip, smile."), usage(604, 6)),
]


async def captured() -> str:
    """What somebody sees who holds this chat."""
    with trio.fail_after(_PATIENCE), tempfile.TemporaryDirectory() as home:
        async with ScriptedEndpoint(_SCRIPT) as endpoint:
            environment = {
                "PATH": os.defpath,
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "HOME": home,
            }
            where = ["--base-url", endpoint.base_url, "--model", "qwen3-32b"]
            command = [sys.executable, "-m", "agent_actors", "chat", *where, "--demo-tools"]
            async with in_terminal(command, environment, width=_WIDTH, height=_HEIGHT) as it:
                await _talk(it)
                return _page_text(it.screen.text)


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
    await it.until("taken back to before")
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


def _page_text(shown: str) -> str:
    text = _TIMES.sub("12 ms", shown)
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


def page() -> str:
    """The page with a new capture."""
    text = trio.run(captured)
    return _CAPTURE.sub(lambda found: found[1] + text + found[2], PAGE.read_text(encoding="utf-8"))


def main() -> int:
    """Write the capture, or compare it."""
    found = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(found, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == found:
        return 0
    sys.stderr.write(f"{PAGE.name} does not show what the chat shows; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Run the demo in a terminal and keep what it shows, with a picture of it; `--check` compares.

The figures are those of a true run and differ from run to run, so that a capture is as good as
another that has the same shape: what is printed, in which order, and what may not differ. The
capture is kept as the terminal was told it, and the picture is made of that alone.
"""

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from scripts.pseudo_terminal import in_terminal
from scripts.screen import Cell, Screen
from scripts.terminal_picture import picture

ASSETS: Final = Path(__file__).parents[1] / "docs/assets"
CAPTURE: Final = ASSETS / "demo.ansi"
PICTURE: Final = ASSETS / "demo.svg"

_ABOUT: Final = (
    "The demo in a terminal: 100 sessions at once, halfway and at their end. All have finished,"
    " their tools ran at once, and no task and no connection is left behind."
)
_COMMAND: Final = "$ agent-actors demo"
_PATIENCE: Final = 120.0
_WIDTH: Final = 80
_HEIGHT: Final = 24
# A whole picture of the demo under way: half of one is on the screen while it is written.
_UNDER_WAY: Final = re.compile(
    r"sessions done +(\d+) of (\d+) .*\nlive streams .*\ntools running .* done\n"
    r"deltas per second .* so far$",
    re.MULTILINE,
)
_VARIES: Final = re.compile(
    r"sessions done|live streams|tools running|most tools|deltas|time to the first|seconds"
)


async def captured() -> str:
    """What a terminal is told to show this demo: halfway, and at its end."""
    halfway: list[list[Cell]] = []
    nearest = 2.0
    with trio.fail_after(_PATIENCE), tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.defpath,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HOME": home,
        }
        command = [sys.executable, "-m", "agent_actors", "demo"]
        async with in_terminal(command, environment, width=_WIDTH, height=_HEIGHT) as it:
            while "connections left behind" not in it.screen.text:
                await it.read()
                found = _UNDER_WAY.search(it.screen.text)
                if found and (far := abs(int(found[1]) / int(found[2]) - 0.5)) < nearest:
                    nearest, halfway = far, it.screen.cells
            await it.end()
            ended = it.screen.cells
    rows = [[(character, "1") for character in _COMMAND], *_shown(halfway), [], *_shown(ended)]
    return "".join(f"{_told(row)}\n" for row in rows)


def _shown(cells: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    """The lines without what is blank at their ends, and without blank lines."""
    rows = [list(row) for row in cells]
    for row in rows:
        while row and row[-1][0] == " ":
            row.pop()
    return [row for row in rows if row]


def _told(row: Sequence[Cell]) -> str:
    written, pen = "", ""
    for text, wanted in row:
        if wanted != pen:
            written += ("\x1b[0m" if pen else "") + (f"\x1b[{wanted}m" if wanted else "")
            pen = wanted
        written += text
    return written + ("\x1b[0m" if pen else "")


def drawn(capture: str) -> str:
    """The picture of a capture."""
    screen = Screen(_WIDTH, capture.count("\n") + 1)
    screen.feed(capture.replace("\n", "\r\n"))
    rows = screen.cells[:-1]
    width = max(len(row) for row in map(str.rstrip, screen.lines))
    return picture([row[:width] for row in rows], _ABOUT)


def shape(capture: str) -> str:
    """What two captures have in common, whatever their figures are."""
    lines: list[str] = []
    for line in re.sub("\x1b\\[[0-9;]*m", "", capture).splitlines():
        found = re.sub(r"[━╸╺]+", "━", re.sub("─+", "─", line))
        if _VARIES.search(found):
            found = re.sub(r"\d[\d,.]*", "0", found)
        lines.append(re.sub(" +", " ", found))
    return "\n".join(lines)


def main() -> int:
    """Write capture and picture, or compare them."""
    kept = CAPTURE.read_text(encoding="utf-8") if CAPTURE.exists() else ""
    found = trio.run(captured)
    if "--check" not in sys.argv[1:]:
        if shape(kept) != shape(found):
            CAPTURE.write_text(found, encoding="utf-8")
            kept = found
        PICTURE.write_text(drawn(kept), encoding="utf-8")
        return 0
    if shape(kept) == shape(found) and PICTURE.read_text(encoding="utf-8") == drawn(kept):
        return 0
    sys.stderr.write(f"{PICTURE.name} does not show what the demo shows; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Run the demo in a terminal, store its output, and draw it; `--check` compares.

The numbers come from a real run and differ between runs. Two captures are equivalent if they have
the same shape: the same lines in the same order, and the same constant parts. The capture is stored
as terminal output, and the picture is generated only from the capture.
"""

import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import trio
from rich.console import Console
from rich.text import Text

from scripts.pseudo_terminal import in_terminal
from scripts.terminal_picture import picture

ASSETS: Final = Path(__file__).parents[1] / "docs/assets"
CAPTURE: Final = ASSETS / "demo.ansi"
PICTURE: Final = ASSETS / "demo.svg"

_ABOUT: Final = (
    "The demo in a terminal: 100 concurrent sessions, halfway and at the end. All sessions"
    " finished, their tools ran concurrently, and no task and no connection is left behind."
)
_COMMAND: Final = "$ agent-actors demo"
_PATIENCE: Final = 120.0
_WIDTH: Final = 80
_HEIGHT: Final = 24
# One complete frame of the running demo. While a frame is being written, the screen shows only
# part of it.
_UNDER_WAY: Final = re.compile(
    r"sessions done +(\d+) of (\d+) .*\nlive streams .*\ntools running .* done\n"
    r"deltas per second .* so far$",
    re.MULTILINE,
)
_VARIES: Final = re.compile(
    r"sessions done|live streams|tools running|most tools|deltas|time to the first|seconds"
)


async def captured() -> str:
    """Return terminal output that shows this demo halfway and at its end."""
    halfway: list[Text] = []
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
                    nearest, halfway = far, it.screen.styled
            await it.end()
            ended = it.screen.styled
    written = io.StringIO()
    console = Console(file=written, color_system="standard", force_terminal=True, width=_WIDTH)
    console.print(_COMMAND, style="bold", highlight=False)
    for line in (*filter(None, halfway), Text(), *filter(None, ended)):
        console.print(line)
    return written.getvalue()


def drawn(capture: str) -> str:
    """Return the picture of a capture."""
    return picture(map(Text.from_ansi, capture.splitlines()), _ABOUT)


def shape(capture: str) -> str:
    """Return the parts of a capture that do not vary between runs."""
    lines: list[str] = []
    for line in re.sub("\x1b\\[[0-9;]*m", "", capture).splitlines():
        found = re.sub(r"[━╸╺]+", "━", re.sub("─+", "─", line))
        if _VARIES.search(found):
            found = re.sub(r"\d[\d,.]*", "0", found)
        lines.append(re.sub(" +", " ", found))
    return "\n".join(lines)


def main() -> int:
    """Write the capture and the picture, or compare them."""
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
    sys.stderr.write(f"{PICTURE.name} does not match the output of the demo; run `make docs`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

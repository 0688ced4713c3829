"""The live area at the bottom is redrawn, and finished lines appear exactly once."""

import io
import os
import re
from pathlib import Path

import trio
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from agent_actors.cli.chat.terminal.screen import LiveArea, Screen, terminal_size
from agent_actors.cli.streams import Output
from scripts.screen import Screen as Terminal
from tests.cli.helpers import pipe, terminal

LINE = st.sampled_from(["", "a", "b", "日本語", "\x1b[2mdim\x1b[0m", "x" * 12, "😀" * 6])
PICTURE = st.tuples(st.lists(LINE, max_size=4), st.lists(LINE, max_size=9))


def plain(line: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", line)


def show(shown: Terminal, written: str) -> None:
    # A terminal's driver makes the same replacement.
    shown.feed(written.replace("\n", "\r\n"))


@given(st.lists(PICTURE, max_size=12))
def test_terminal_shows_finished_and_live_lines(
    pictures: list[tuple[list[str], list[str]]],
) -> None:
    width, height = 12, 6
    area, shown = LiveArea(), Terminal(width, height)
    expected: list[str] = []
    live: list[str] = []
    for finished, live in pictures:
        show(shown, area.change(finished, live, width, height))
        expected += map(plain, finished)
    below = list(map(plain, live))[-(height - 1) :]

    assert "\n".join([*expected, *below]).rstrip("\n") == shown.text
    if below:
        assert shown.cursor[1] == cell_len(below[-1])
    else:
        assert shown.cursor[1] == 0


def test_unchanged_lines_are_not_rewritten() -> None:
    area = LiveArea()
    assert area.change([], ["one", "two"], 20, 10) == "one\ntwo"
    assert area.change([], ["one", "two"], 20, 10) == ""
    assert area.change([], ["one", "two", "three"], 20, 10) == "\nthree"
    assert area.change([], ["one", "two", "four"], 20, 10) == "\r\x1b[Jfour"
    assert area.change([], ["one", "two"], 20, 10) == "\r\x1b[1A\x1b[Jtwo"
    # A line that does not change when it is finished is not written again either.
    assert area.change(["one"], ["two"], 20, 10) == ""
    assert area.change(["two"], [], 20, 10) == "\n"
    assert area.change([], [], 20, 10) == ""


def test_folded_lines_are_erased_after_narrowing() -> None:
    area = LiveArea()
    area.change([], ["x" * 30, "end"], 40, 10)
    # 30 characters now take three lines, and the last line follows.
    assert area.change([], ["y"], 10, 10) == "\r\x1b[3A\x1b[Jy"


async def test_terminal_keeps_colours_of_a_picture() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    with terminal() as (stream, shown):
        screen = Screen(console, Output(stream), lambda: (10, 5))
        await screen.draw([Text("one two three", style="red")], [Text("live")])
        await screen.draw([Text("end")])
        assert screen.height == 5
        assert shown() == ("\x1b[31mone two \x1b[0m\r\n\x1b[31mthree\x1b[0m\r\nlive\r\x1b[Jend\r\n")


async def test_blocked_terminal_blocks_no_task() -> None:
    with pipe() as (_source, stream), trio.CancelScope() as scope:
        screen = Screen(Console(file=io.StringIO()), Output(stream), lambda: (80, 24))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(screen.draw, [Text("x" * 200_000)])
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught


def test_unknown_terminal_size_has_default() -> None:
    with terminal() as (stream, _):
        assert terminal_size(stream.fileno()) == (80, 24)
    with Path(os.devnull).open() as nothing:
        assert terminal_size(nothing.fileno()) == (80, 24)

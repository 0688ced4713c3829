"""The standard streams are read and written without blocking other tasks."""

import tempfile
from typing import TextIO

import pytest
import trio

from agent_actors.cli.streams import Input, Output, read_all
from tests.cli.helpers import pipe

# More than a pipe holds.
MUCH = 300_000


async def test_text_of_any_length_passes_a_pipe() -> None:
    text = "xé😀" * (MUCH // 3)
    read: list[str] = []

    async def write(target: TextIO) -> None:
        with target:
            await Output(target).write(text)

    async def collect(source: TextIO) -> None:
        read.append(await read_all(source))

    with pipe() as (source, target):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, source)
            nursery.start_soon(write, target)

    assert read == [text]


async def test_blocked_write_can_be_cancelled() -> None:
    with pipe() as (_source, target), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Output(target).write, "x" * MUCH)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught


async def test_blocked_read_can_be_cancelled() -> None:
    with pipe() as (source, _target), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_all, source)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()

    assert scope.cancelled_caught


async def test_closed_reader_breaks_the_pipe() -> None:
    with pipe() as (source, target):
        source.close()
        with pytest.raises(BrokenPipeError):
            await Output(target).write("Hello")


async def test_unencodable_characters_are_replaced_both_ways() -> None:
    with pipe(encoding="latin-1") as (source, target):
        await Output(target).write("é😀\udc80")
        target.close()
        assert await read_all(source) == "é??"
    with pipe() as (source, target):
        await Output(target).write_bytes(b"a\xff")
        target.close()
        assert await read_all(source) == "a\N{REPLACEMENT CHARACTER}"


async def test_file_writes_follow_buffered_text() -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write("first ")
        output = Output(file)
        await output.write("second")
        file.seek(0)
        assert await read_all(file) == "first second"
        assert not output.terminal


async def test_a_line_is_ended_once() -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        output = Output(file)
        for text in ("", "one", "", "two\n", "three"):
            await output.write(text)
            await output.end_line()
            await output.end_line()
        file.seek(0)
        assert file.read() == "one\ntwo\nthree\n"


async def test_last_line_needs_no_newline() -> None:
    with pipe() as (source, target):
        lines = Input(source)
        target.write("one\r\n\nthr")
        target.flush()
        assert [await lines.line(), await lines.line()] == ["one", ""]
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lines.line)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        target.write("ee")
        target.close()
        # The part of a line that was read before the cancellation is kept.
        assert [await lines.line(), await lines.line(), await lines.line()] == ["three", None, None]

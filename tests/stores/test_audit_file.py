"""A line is in the file when `write` returns, despite cancellation and disk errors."""

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agent_actors.stores.audit_file import AuditFile

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_concurrent_lines_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with AuditFile(path) as file, trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(file.write, b"%03d\n" % number)
    assert sorted(path.read_bytes().splitlines()) == [b"%03d" % number for number in range(200)]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("durable", [False, True])
async def test_lines_are_appended_immediately(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "audit.jsonl"
    for line in (b"one\n", b"two\n"):
        async with AuditFile(path, durable=durable) as file:
            before = path.read_bytes()
            await file.write(line)
            assert path.read_bytes() == before + line
    assert path.read_bytes() == b"one\ntwo\n"


async def test_closed_file_refuses_lines(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.jsonl")
    with pytest.raises(ValueError, match="is not open"):
        await file.write(b"x\n")
    async with file:
        pass
    with pytest.raises(ValueError, match="is not open"):
        await file.write(b"x\n")
    with pytest.raises(FileNotFoundError):
        async with AuditFile(tmp_path / "nowhere" / "audit.jsonl"):
            pass


class Disk:
    """A replacement for `os.write` that writes part of the data, waits, or fails."""

    def __init__(self) -> None:
        self.takes: list[int | None] = []
        self.go_on: Callable[[], object] = bool
        self._write = os.write

    def __call__(self, file: int, data: memoryview) -> int:
        self.go_on()
        takes = self.takes.pop(0) if self.takes else len(data)
        if takes is None:
            raise OSError(errno.ENOSPC, "no space")
        return self._write(file, data[:takes])


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr("agent_actors.stores.audit_file.os.write", made)
    return made


async def test_partial_write_is_completed(tmp_path: Path, disk: Disk) -> None:
    disk.takes = [1, 2]
    async with AuditFile(tmp_path / "a") as file:
        await file.write(b"a line\n")
    assert (tmp_path / "a").read_bytes() == b"a line\n"


async def test_torn_line_does_not_spoil_next(tmp_path: Path, disk: Disk) -> None:
    async with AuditFile(tmp_path / "a") as file:
        disk.takes = [3, None]
        with pytest.raises(OSError, match="no space"):
            await file.write(b"a line\n")
        disk.takes = [None]
        with pytest.raises(OSError, match="no space"):
            await file.write(b"another\n")
        await file.write(b"whole\n")
        await file.write(b"and on\n")
    assert (tmp_path / "a").read_bytes() == b"a l\nwhole\nand on\n"


async def test_write_failure_reaches_every_waiter(tmp_path: Path, disk: Disk) -> None:
    errors: list[OSError] = []

    async def write(line: bytes) -> None:
        try:
            await file.write(line)
        except OSError as error:
            errors.append(error)

    async with AuditFile(tmp_path / "a") as file:
        disk.takes = [2, None]
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(write, b"x\n")
    assert [error.errno for error in errors] == [errno.ENOSPC] * len(errors)
    assert len({id(error) for error in errors}) == len(errors) > 0


async def test_cancelled_writers_keep_all_lines(tmp_path: Path, disk: Disk) -> None:
    token, entered = trio.lowlevel.current_trio_token(), trio.Event()
    gate = trio.Event()

    def wait() -> None:
        disk.go_on = bool
        trio.from_thread.run_sync(entered.set, trio_token=token)
        trio.from_thread.run(gate.wait, trio_token=token)

    scopes = [trio.CancelScope() for _ in range(2)]

    async def write(line: bytes, scope: trio.CancelScope) -> None:
        with scope:
            await file.write(line)

    async with AuditFile(tmp_path / "a") as file:
        disk.go_on = wait
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, b"under way\n", scopes[0])
            await entered.wait()
            nursery.start_soon(write, b"in line\n", scopes[1])
            await wait_all_tasks_blocked()
            for scope in scopes:
                scope.cancel()
            gate.set()
    assert (tmp_path / "a").read_bytes() == b"under way\nin line\n"
    assert scopes[1].cancelled_caught


async def test_cancelled_writer_loses_no_line(tmp_path: Path, disk: Disk) -> None:
    token, second = trio.lowlevel.current_trio_token(), trio.CancelScope()

    async def first() -> None:
        await file.write(b"one\n")
        second.cancel()  # its turn came in this very tick

    def until_the_second_is_in_line() -> None:
        disk.go_on = bool
        trio.from_thread.run(wait_all_tasks_blocked, trio_token=token)

    disk.go_on = until_the_second_is_in_line
    async with AuditFile(tmp_path / "a") as file, trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        with second:
            await file.write(b"two\n")
    assert (tmp_path / "a").read_bytes() == b"one\ntwo\n"


async def test_line_during_close_is_refused(tmp_path: Path, disk: Disk) -> None:
    token = trio.lowlevel.current_trio_token()
    refused: list[str] = []

    async def late() -> None:
        try:
            await file.write(b"late\n")
        except ValueError as error:
            refused.append(str(error))

    def come_late() -> None:
        disk.go_on = bool
        trio.from_thread.run(late, trio_token=token)

    async with AuditFile(tmp_path / "a") as file:
        with trio.CancelScope() as scope:
            scope.cancel()
            await file.write(b"left\n")
        disk.go_on = come_late
    assert len(refused) == 1
    assert (tmp_path / "a").read_bytes() == b"left\n"


@pytest.mark.parametrize("body_fails", [False, True])
async def test_write_failure_at_close_is_raised(
    tmp_path: Path, disk: Disk, body_fails: bool
) -> None:
    with pytest.raises(KeyError if body_fails else OSError):  # noqa: PT012 - the block is tested
        async with AuditFile(tmp_path / "a") as file:
            with trio.CancelScope() as scope:
                scope.cancel()
                await file.write(b"left\n")
            disk.takes = [None]
            if body_fails:
                raise KeyError("body")

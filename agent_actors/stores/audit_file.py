"""AuditFile: a file of lines that a thread appends; `write` returns when the line is written.

Several programs may append to the same file, because each batch of lines is one write. Lines that
arrive during a write go together into the next one. `hooks.builtin.AuditLog` makes the lines.
"""

import os
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from agent_actors.kernel.interrupts import finish, protect_loaded_modules

# What was asked of an agent is nobody else's to read.
_MODE: Final = 0o600


@attrs.define(eq=False)
class _Batch:
    lines: list[bytes] = attrs.field(factory=list[bytes])
    written: bool = False
    failure: OSError | None = None


class AuditFile:
    """A file of lines; enter it with `async with`.

    Args:
        path: The file; it is made, readable by its owner alone, if it is not there.
        durable: Whether `write` returns only when the disk has the line, not only the system.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False) -> None:
        self._path = Path(path)
        self._durable = durable
        self._file: int | None = None
        # The file may end in the middle of a line, which a failed write left there.
        self._torn = False
        self._next = _Batch()
        self._turn = trio.Lock()
        # One of its own: threads that hang elsewhere do not keep it from writing.
        self._thread = trio.CapacityLimiter(1)

    async def write(self, line: bytes) -> None:
        """Append a line, with its line end.

        Args:
            line: The line; whatever comes while another is written goes in one write with others.

        Raises:
            OSError: It could not be written; a part of it may be in the file.
            ValueError: The file is not open.

        Cancellation: a line that was handed over is written all the same, with the next one or at
        the close, unless that fails.
        """
        file = self._file
        if file is None:
            raise ValueError(f"{self._path} is not open; use `async with AuditFile(...)`")
        batch = self._next
        batch.lines.append(line)
        async with self._turn:
            await self._put(batch, file)
        if batch.failure is not None:
            raise self._failed(batch.failure)

    async def __aenter__(self) -> Self:
        """Open the file.

        Raises:
            OSError: It cannot be opened.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        open_file = partial(os.open, self._path, flags, _MODE)
        self._file = await trio.to_thread.run_sync(open_file, limiter=self._thread)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what waits, and close the file.

        Raises:
            OSError: The waiting lines could not be written.

        Cancellation: shielded; it takes as long as the disk does.
        """
        file, self._file = self._file, None  # first: a line that comes now is in nobody's write
        assert file is not None
        last = self._next
        with trio.CancelScope(shield=True):
            await finish(partial(self._close, last, file))
        if last.failure is not None and exc is None:
            raise self._failed(last.failure)

    async def _close(self, last: _Batch, file: int) -> None:
        async with self._turn:
            await self._put(last, file)
            # An interrupt comes before the thread begins, or after this.
            await trio.to_thread.run_sync(os.close, file, limiter=self._thread)

    def _failed(self, failure: OSError) -> OSError:
        # One of its own for each line of the batch, since each is raised elsewhere.
        error = OSError(failure.errno, failure.strerror or str(failure), str(self._path))
        error.__cause__ = failure
        return error

    async def _put(self, batch: _Batch, file: int) -> None:
        if batch.written or not batch.lines:
            return
        self._next = _Batch()
        batch.written = True
        data = (b"\n" if self._torn else b"") + b"".join(batch.lines)
        try:
            # Lines of others are among them: a cancel of this one waits for the disk.
            with trio.CancelScope(shield=True):
                write = partial(self._append, file, data)
                await finish(partial(trio.to_thread.run_sync, write, limiter=self._thread))
        except OSError as error:
            batch.failure = error

    def _append(self, file: int, data: bytes) -> None:
        written, view = 0, memoryview(data)
        try:
            while written < len(data):
                written += os.write(file, view[written:])
        finally:
            self._torn = written < len(data) if written else self._torn
        if self._durable:
            os.fsync(file)


protect_loaded_modules()

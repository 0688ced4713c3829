"""`AuditFile`: a file to which a thread appends lines.

Several programs may append to the same file, because each batch of lines is a single write. Lines
that arrive during a write are written together by the next write. `hooks.builtin.AuditLog` creates
the lines.
"""

import os
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs
import trio

from agent_actors.kernel.interrupts import finish, protect_loaded_modules

# Only the owner may read the requests to an agent.
_MODE: Final = 0o600


@attrs.define(eq=False)
class _Batch:
    lines: list[bytes] = attrs.field(factory=list[bytes])
    written: bool = False
    failure: OSError | None = None


class AuditFile:
    """A file to which lines are appended; open it with `async with`.

    Args:
        path: The file. If it does not exist, it is created, and only its owner can read it.
        durable: True if `write` returns only when the line is on the disk. If False, it returns
            when the operating system has accepted the line.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False) -> None:
        self._path = Path(path)
        self._durable = durable
        self._file: int | None = None
        # True if a failed write may have left an incomplete line at the end of the file.
        self._torn = False
        self._next = _Batch()
        self._turn = trio.Lock()
        # A separate limiter, so that threads that hang elsewhere do not block this file's writes.
        self._thread = trio.CapacityLimiter(1)

    async def write(self, line: bytes) -> None:
        """Append a line and return when it is written.

        Args:
            line: The line, including its line end.

        Raises:
            OSError: The line could not be written; part of it may have been written.
            ValueError: The file is not open.

        Cancellation: the line is still written, together with the next line or when the file is
        closed, unless that write fails.
        """
        file = self._file
        if file is None:
            raise ValueError(f"the file {self._path} is not open; use `async with AuditFile(...)`")
        batch = self._next
        batch.lines.append(line)
        async with self._turn:
            await self._put(batch, file)
        if batch.failure is not None:
            raise self._failed(batch.failure)

    async def __aenter__(self) -> Self:
        """Open the file.

        Raises:
            OSError: The file cannot be opened.
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
        """Write the waiting lines and close the file.

        Raises:
            OSError: The waiting lines could not be written.

        Cancellation: shielded; takes as long as the disk needs.
        """
        # The file must be cleared first, since no later write would include a line added from now
        # on.
        file, self._file = self._file, None
        assert file is not None
        last = self._next
        with trio.CancelScope(shield=True):
            await finish(partial(self._close, last, file))
        if last.failure is not None and exc is None:
            raise self._failed(last.failure)

    async def _close(self, last: _Batch, file: int) -> None:
        async with self._turn:
            await self._put(last, file)
            # An interrupt is raised either before the thread starts or after it has ended.
            await trio.to_thread.run_sync(os.close, file, limiter=self._thread)

    def _failed(self, failure: OSError) -> OSError:
        # Each line of the batch gets its own error, because each error is raised in another task.
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
            # Shielded until the disk is done, because the batch contains lines of other tasks.
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

"""The runtime's side of the helper process, which carries out requests in a container."""

import os
import re
import secrets
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.processes.lifeline import Launch, Lifeline, Supervisor
from agent_actors.toolbox.workspace.processes.runner import Pipes

# A shell in the container reads a number of lines from standard input and executes them. The rest
# of the input belongs to the code. Neither a command nor its environment is in any argument, which
# other users of the machine can read. A shell whose input ends early does nothing.
_BOOTSTRAP: Final = """\
code=
IFS= read -r lines || exit 125
while [ "$lines" -gt 0 ]; do
  IFS= read -r line || exit 125
  code="$code$line
"
  lines=$((lines - 1))
done
eval "$code"
"""

_SCRIPT: Final = Path(__file__).with_name("helper.sh")
_READ: Final = 1 << 18
# Every request is small: at most a file of the size limit. The helper of a container that does not
# respond within this time is given up.
_REPLY_SECONDS: Final = 120.0
# Starting may include downloading the image.
_START_SECONDS: Final = 1_800.0
_MAX_REPLY: Final = 1 << 28
_MESSAGE: Final = 2_000
# Seconds in which an engine removes a container that has ended.
_REMOVE_SECONDS: Final = 15.0


@attrs.frozen
class Reply:
    """The outcome of a request.

    Attributes:
        status: The exit status; 0 for success.
        output: The output.
    """

    status: int
    output: bytes


class Helper:
    """The helper process of one container. It runs one request at a time.

    Args:
        supervisor: The supervisor that starts the engine's program.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.token: str = secrets.token_hex(12)
        self._supervisor = supervisor
        self._lock = trio.Lock()
        self._lifeline: Lifeline | None = None
        self._stdin: trio.lowlevel.FdStream | None = None
        self._stdout: trio.lowlevel.FdStream | None = None
        self._messages: int | None = None
        self._is_removed = True
        self._unread = bytearray()
        self._end = re.compile(rb"\n%s (\d+)\n" % self.token.encode())

    @property
    def is_running(self) -> bool:
        """True if requests can be sent."""
        return self._stdin is not None

    async def start(self, launch: Launch) -> None:
        """Start the container and wait until the helper responds.

        Raises:
            WorkspaceError: The container cannot be started (reason `unavailable`).

        Cancellation: the program of the engine is ended; the container may be left.
        """
        pipes = Pipes.open()
        messages = os.memfd_create("messages", os.MFD_CLOEXEC)
        try:
            stdin, stdout, _ = pipes.theirs
            with open_directory() as directory:
                self._lifeline = await self._supervisor.launch(
                    launch, (stdin, stdout, messages), directory.fd, launch.argv[0]
                )
        except BaseException:
            pipes.close_ours()
            os.close(messages)
            raise
        finally:
            pipes.close_theirs()
        self._is_removed = False
        os.close(pipes.ours[2])
        self._stdin, self._stdout = map(trio.lowlevel.FdStream, pipes.ours[:2])
        self._messages = messages
        try:
            with trio.fail_after(_START_SECONDS):
                await self._exchange(encoded_code(_script()) + encoded_code(":"))
        except trio.TooSlowError:
            raise _unavailable(f"it did not start within {_START_SECONDS:.0f} s") from None

    async def ask(self, *words: str, data: bytes = b"", merge: bool = False) -> Reply:
        """Call a function of the helper.

        Args:
            words: The name of the function and its arguments.
            data: The standard input of the function.
            merge: True if the output includes the messages of failed programs.

        Raises:
            WorkspaceError: The container has ended or does not respond (reason `unavailable`).

        Cancellation: a request that has been sent is carried out before the call returns.
        """
        code = shlex.join(words) + (" 2>&1" if merge else " 2>/dev/null")
        async with self._lock:
            if self._stdin is None:
                raise _unavailable("the container has ended")
            with trio.CancelScope(shield=True):
                with trio.move_on_after(_REPLY_SECONDS):
                    return await self._exchange(encoded_code(code) + data)
                await self.aclose()
        raise _unavailable(f"the container did not respond within {_REPLY_SECONDS:.0f} s")

    async def aclose(self) -> bool:
        """Close the input of the helper, so that the container ends; may be repeated.

        Returns:
            True if the engine has removed the container, or if none was started.

        Cancellation: ignored, for at most a few seconds.
        """
        streams, self._stdin, self._stdout = (self._stdin, self._stdout), None, None
        for stream in streams:
            if stream is not None:
                stream.close()
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            with trio.move_on_after(_REMOVE_SECONDS, shield=True):
                await lifeline.ended()
            self._is_removed = lifeline.has_ended
            await lifeline.close()
        if self._messages is not None:
            os.close(self._messages)
            self._messages = None
        return self._is_removed

    async def _exchange(self, request: bytes) -> Reply:
        stdin, stdout = self._stdin, self._stdout
        assert stdin is not None
        assert stdout is not None
        try:
            return await self._exchange_over(stdin, stdout, request)
        except trio.ClosedResourceError:
            raise _unavailable("it has been closed") from None

    async def _exchange_over(
        self, stdin: trio.lowlevel.FdStream, stdout: trio.lowlevel.FdStream, request: bytes
    ) -> Reply:
        # If the container has ended, the missing reply says so.
        with suppress(trio.BrokenResourceError):
            await stdin.send_all(request)
        searched = 0
        while (found := self._end.search(self._unread, searched)) is None:
            searched = max(0, len(self._unread) - len(self.token) - 16)
            received = await stdout.receive_some(_READ)
            if not received or len(self._unread) > _MAX_REPLY:
                why = self._message()
                await self.aclose()
                raise _unavailable(why)
            self._unread += received
        reply = Reply(int(found[1]), bytes(self._unread[: found.start()]))
        del self._unread[: found.end()]
        return reply

    def _message(self) -> str:
        """Return the last message of the engine."""
        assert self._messages is not None
        size = os.fstat(self._messages).st_size
        text = os.pread(self._messages, _MESSAGE, max(0, size - _MESSAGE))
        return text.decode("utf-8", "replace").strip() or "the container has ended"


def shell_arguments(argument: str) -> tuple[str, ...]:
    """Return the arguments of a shell that executes code from its standard input.

    Args:
        argument: The argument of the code, `$1`.
    """
    return ("-c", _BOOTSTRAP, "sh", argument)


def encoded_code(code: str) -> bytes:
    """Return code as the shell reads it from its standard input."""
    return f"{code.count(chr(10)) + 1}\n{code}\n".encode("utf-8", "surrogateescape")


@attrs.frozen
class EngineDirectory:
    """The directory of this machine where the program of an engine starts.

    Attributes:
        fd: The descriptor.
        path: The absolute path.
    """

    fd: int
    path: str = "/"


@contextmanager
def open_directory() -> Generator[EngineDirectory]:
    """Open the directory where the program of an engine starts."""
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        yield EngineDirectory(fd)
    finally:
        os.close(fd)


def states_of(reply: Reply, token: str) -> dict[str, Sequence[str]]:
    """Return the fields of each entry from the output of `states`, by the names."""
    found: dict[str, Sequence[str]] = {}
    text = "\n" + reply.output.decode("utf-8", "surrogateescape")
    for record in text.split(f"\n{token}|")[1:]:
        *fields, name = record.split("|", 8)
        found[name.removesuffix("\n")] = fields
    return found


@cache
def _script() -> str:
    return _SCRIPT.read_text("utf-8")


def _unavailable(why: str) -> WorkspaceError:
    return WorkspaceError(f"the container is not available: {why}", reason="unavailable")

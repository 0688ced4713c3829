"""The process of a stdio server, and the messages on its pipes.

The SDK has a transport for stdio as well. This one limits the size of a message, reads a line in
linear time, keeps the end of stderr for error messages, and reports when the server ends.
"""

import os
import signal
import subprocess
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio
import mcp_types
import trio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from agent_actors.errors import ToolServerError
from agent_actors.options.mcp_servers import StdioServer

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MAX_MESSAGE_BYTES: Final = 32 * 2**20
"""The maximum size of one message of a server. A larger one ends the connection."""
EXIT_TIMEOUT: Final = 2.0
"""Seconds that a server has to exit after its stdin is closed, and again after SIGTERM."""
_STDERR_BYTES: Final = 2048  # kept of what the server wrote to stderr


class ServerProcess:
    """A running stdio server, and its messages as the streams that the SDK expects.

    Args:
        process: The process, with pipes for stdin, stdout and stderr.
    """

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._stderr: deque[bytes] = deque()
        self._unreadable = 0
        self._failure = ""
        received: tuple[
            MemoryObjectSendStream[SessionMessage | Exception],
            MemoryObjectReceiveStream[SessionMessage | Exception],
        ] = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent: tuple[
            MemoryObjectSendStream[SessionMessage], MemoryObjectReceiveStream[SessionMessage]
        ] = anyio.create_memory_object_stream[SessionMessage](0)
        self._to_session, incoming = received
        outgoing, self._from_session = sent
        self.incoming: MemoryObjectReceiveStream[SessionMessage | Exception] = incoming
        self.outgoing: MemoryObjectSendStream[SessionMessage] = outgoing
        self.ended: trio.Event = trio.Event()

    @classmethod
    async def start(cls, server: StdioServer) -> "ServerProcess":
        """Start the program of a server.

        Raises:
            ToolServerError: The program cannot be started.

        Cancellation: safe.
        """
        try:
            process = await trio.lowlevel.open_process(
                [server.command, *server.args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that its own children can be ended too
                env={**get_default_environment(), **server.env},
                cwd=server.cwd,
            )
        except (OSError, ValueError) as error:
            raise ToolServerError(f"the command {server.command!r} cannot start: {error}") from None
        return cls(process)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Pass messages between the process and the streams until the process ends or is stopped.

        Cancellation: the usual way to end this method; `stop` must follow.
        """
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            nursery.start_soon(self._read_stderr)
            try:
                await self._read()
            finally:
                self._to_session.close()
                self.ended.set()

    async def stop(self) -> None:
        """End the process and its children, and close its pipes.

        A server that does not exit after its stdin is closed gets SIGTERM and then SIGKILL.

        Cancellation: must be shielded by the caller; there is a time limit.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdin.aclose()
        if self._failure:  # nothing reads its stdout, on which it may be blocked
            await process.stdout.aclose()
        if not await self._exits():
            self._signal(signal.SIGTERM)
            if not await self._exits():
                self._signal(signal.SIGKILL)
                await process.wait()
        self._signal(signal.SIGKILL)  # children that outlived the server
        await process.stdout.aclose()
        await process.stderr.aclose()
        for stream in (self._to_session, self.incoming, self.outgoing, self._from_session):
            stream.close()

    def describe_end(self) -> str:
        """Return why the connection ended, for an error message."""
        code = self._process.poll()
        parts = [self._failure or ("it ended" if code is None else f"it exited with status {code}")]
        if self._unreadable:
            parts.append(f"{self._unreadable} lines on its stdout were not messages")
        text = b"".join(self._stderr)[-_STDERR_BYTES:].decode(errors="replace").strip()
        if text:
            parts.append(f"the end of its stderr: {text}")
        return "; ".join(parts)

    async def _exits(self) -> bool:
        with trio.move_on_after(EXIT_TIMEOUT):
            await self._process.wait()
        return self._process.poll() is not None

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # the whole group has ended
        except PermissionError:  # some systems report an ended group in this way
            return

    async def _read(self) -> None:
        assert self._process.stdout is not None
        line = bytearray()
        try:
            async for chunk in self._process.stdout:
                first, *rest = bytes(chunk).split(b"\n")
                line += first
                for following in rest:
                    await self._deliver(bytes(line))
                    line = bytearray(following)
                if self._failure:
                    return
                if len(line) > MAX_MESSAGE_BYTES:
                    self._failure = f"it sent a message larger than {MAX_MESSAGE_BYTES} bytes"
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._failure = f"its stdout failed: {error}"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the session has ended

    async def _deliver(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._unreadable += 1
            if b'"jsonrpc"' in line:
                # It may be a response, for which the caller would wait until its deadline.
                self._failure = "it sent a message that cannot be read"
            return
        await self._to_session.send(SessionMessage(message))

    async def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            async for message in self._from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._process.stdin.send_all(f"{text}\n".encode())
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            # The server may still run, but it cannot receive requests.
            self._failure = self._failure or f"its stdin failed: {error}"
            self._to_session.close()

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        kept = 0
        try:
            async for chunk in self._process.stderr:
                self._stderr.append(bytes(chunk[-_STDERR_BYTES:]))
                kept += len(self._stderr[-1])
                while kept - len(self._stderr[0]) >= _STDERR_BYTES:
                    kept -= len(self._stderr.popleft())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

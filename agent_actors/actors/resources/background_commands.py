"""A background command with its buffered output, and the records of its start and end.

The output that was not read yet is limited. If a command writes more, the oldest output is dropped
and counted, so that a server that logs without end costs a fixed amount of memory.
"""

import shlex
from collections import deque
from functools import partial
from typing import Final

import attrs
import trio

from agent_actors.abc import WorkspaceProcess
from agent_actors.domain.events import (
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    EventBuilder,
)
from agent_actors.domain.workspace.background import (
    MAX_COMMAND_CHARACTERS,
    BackgroundOutput,
    BackgroundStatus,
    BackgroundTask,
)
from agent_actors.domain.workspace.processes import OutputStream, ProcessEnd, ProcessSpec

# The maximum number of bytes of output of one command that are kept until they are read.
MAX_BUFFERED_BYTES: Final = 1_000_000


@attrs.define(eq=False)
class BackgroundCommand:
    """A background command.

    Attributes:
        task: The state.
        process: The process; None until it has started.
        ended: Set when the command has ended and its output is complete.
        killed: True if the command was killed on request.
        recorded: True if the start of the command was given to a run to record.
    """

    task: BackgroundTask
    process: WorkspaceProcess | None = None
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    killed: bool = attrs.field(default=False, init=False)
    recorded: bool = attrs.field(default=False, init=False)
    _chunks: deque[tuple[OutputStream, bytes]] = attrs.field(
        factory=deque["tuple[OutputStream, bytes]"], init=False
    )
    _buffered: int = attrs.field(default=0, init=False)

    @property
    def is_running(self) -> bool:
        """True while the command has not ended."""
        return self.task.status == "running"

    def take_output(self, stream: OutputStream, data: bytes) -> None:
        """Keep output until it is read; drop the oldest output if there is too much."""
        kept = data[-MAX_BUFFERED_BYTES:]
        dropped = len(data) - len(kept)
        self._chunks.append((stream, kept))
        self._buffered += len(kept)
        while self._buffered > MAX_BUFFERED_BYTES:
            oldest, content = self._chunks.popleft()
            cut = min(len(content), self._buffered - MAX_BUFFERED_BYTES)
            if cut < len(content):
                self._chunks.appendleft((oldest, content[cut:]))
            self._buffered -= cut
            dropped += cut
        if dropped:
            total = self.task.dropped_bytes + dropped
            self.task = attrs.evolve(self.task, dropped_bytes=total)

    def read(self) -> BackgroundOutput:
        """Return the output since the last call, and the state."""
        streams: dict[OutputStream, list[bytes]] = {"stdout": [], "stderr": []}
        for stream, data in self._chunks:
            streams[stream].append(data)
        self._chunks.clear()
        self._buffered = 0
        return BackgroundOutput(self.task, b"".join(streams["stdout"]), b"".join(streams["stderr"]))

    def finish(self, end: ProcessEnd | None) -> None:
        """Note the end of the command; None if it is not known."""
        status: BackgroundStatus = "killed" if self.killed else "ended"
        self.task = attrs.evolve(self.task, status="lost" if end is None else status, end=end)
        self.ended.set()


def command_text(spec: ProcessSpec) -> str:
    """Return a command as text."""
    text = spec.argv if isinstance(spec.argv, str) else shlex.join(spec.argv)
    return text[:MAX_COMMAND_CHARACTERS]


def start_record(task: BackgroundTask) -> EventBuilder:
    """Return the record of the start of a command."""
    return partial(BackgroundStarted, task_id=task.task_id, command=task.command, owner=task.owner)


def end_record(task: BackgroundTask) -> EventBuilder:
    """Return the record of the end of a command, which may be unknown."""
    if task.end is None:
        return partial(BackgroundLost, task_id=task.task_id, command=task.command)
    return partial(
        BackgroundEnded,
        task_id=task.task_id,
        command=task.command,
        end=task.end,
        killed=task.status == "killed",
        dropped_bytes=task.dropped_bytes,
    )

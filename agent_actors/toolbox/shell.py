"""Runs shell commands in the workspace for a model, also in the background."""

import codecs
from typing import Final

import attrs

from agent_actors.domain.json import JsonObject
from agent_actors.domain.workspace.background import BackgroundOutput
from agent_actors.domain.workspace.processes import ProcessEnd, ProcessResult, ProcessSpec
from agent_actors.domain.workspace.report import CallResources
from agent_actors.toolbox.calls import background_of, workspace_of
from agent_actors.toolbox.failure import ToolFailure
from agent_actors.tools import ToolContext, ToolOutput

DEFAULT_TIMEOUT: Final = 300.0
"""Default maximum duration of a command, in seconds."""

DEFAULT_OUTPUT_BYTES: Final = 100_000
"""Default maximum size of each output stream in a result, in UTF-8 bytes."""


@attrs.frozen
class Shell:
    """Runs commands within limits, which a call can only lower.

    Attributes:
        timeout_s: Maximum duration of a command in seconds; background commands have none.
        max_output_bytes: Maximum size of each output stream in a result, in UTF-8 bytes.
    """

    timeout_s: float = DEFAULT_TIMEOUT
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES

    async def run(
        self,
        ctx: ToolContext,
        command: str,
        *,
        timeout_s: float | None = None,
        max_output_bytes: int | None = None,
        cwd: str = ".",
    ) -> ToolOutput:
        """Run a command and return its output and end.

        Raises:
            ToolFailure: An argument is invalid.
            WorkspaceError: The workspace refuses or cannot start the command.

        Cancellation: the command and its children are ended before the call returns.
        """
        _check_command(command)
        timeout = self.timeout_s if timeout_s is None else min(timeout_s, self.timeout_s)
        size = self.max_output_bytes
        size = size if max_output_bytes is None else min(max_output_bytes, size)
        if not timeout > 0 or size < 1:
            raise ToolFailure(
                f"timeout_s must be positive and max_output_bytes at least 1; got "
                f"timeout_s={timeout:g} and max_output_bytes={size}"
            )
        spec = ProcessSpec(argv=command, cwd=cwd, timeout=timeout, max_output_bytes=size)
        result = await workspace_of(ctx).exec(spec)
        _note(ctx, result.end)
        return ToolOutput(_described(result, size, timeout), is_error=result.end.timed_out)

    async def start(self, ctx: ToolContext, command: str, *, cwd: str = ".") -> JsonObject:
        """Start a command in the background and return its task id.

        Raises:
            ToolFailure: The command is empty, or there are no background commands here.
            WorkspaceError: Too many background commands are running, or the workspace refuses the
                command.

        Cancellation: see `BackgroundTasks.start`.
        """
        _check_command(command)
        task = await background_of(ctx).start(ProcessSpec(argv=command, cwd=cwd))
        return {"task_id": task.task_id, "status": task.status}

    async def output(self, ctx: ToolContext, task_id: str) -> JsonObject:
        """Return the new output of a background command, and its state.

        Raises:
            ToolFailure: There are no background commands here.
            WorkspaceError: The id names no command.

        Cancellation: see `BackgroundTasks.read`.
        """
        return self._state(ctx, await background_of(ctx).read(task_id))

    async def kill(self, ctx: ToolContext, task_id: str) -> JsonObject:
        """End a background command, and return its last output and state.

        Raises:
            ToolFailure: There are no background commands here.
            WorkspaceError: The id names no command.

        Cancellation: see `BackgroundTasks.kill`.
        """
        return self._state(ctx, await background_of(ctx).kill(task_id))

    def _state(self, ctx: ToolContext, output: BackgroundOutput) -> JsonObject:
        task = output.task
        state: JsonObject = {"task_id": task.task_id, "status": task.status, "exit_code": None}
        if task.end is not None:
            _note(ctx, task.end)
            state |= _ended(task.end)
        state["stdout"] = output.stdout.decode("utf-8", "replace")
        state["stderr"] = output.stderr.decode("utf-8", "replace")
        if task.dropped_bytes:
            state["dropped_bytes"] = task.dropped_bytes
        return state


def output_text(data: bytes, limit: int) -> str:
    """Decode the beginning of an output as UTF-8, at most `limit` bytes of UTF-8 long.

    Bytes that are not UTF-8 are replaced. The replacement character is longer than the byte, so the
    text may end earlier than the data. A character is never cut.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data[:limit], final=len(data) < limit)
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[:limit].decode("utf-8", "ignore")


def _described(result: ProcessResult, limit: int, timeout: float) -> JsonObject:
    stdout, stderr = output_text(result.stdout, limit), output_text(result.stderr, limit)
    described = _ended(result.end)
    if result.end.timed_out:
        described["timeout_s"] = timeout
    return {
        **described,
        "stdout": stdout,
        "stderr": stderr,
        "stdout_truncated": result.stdout_truncated or _is_cut(result.stdout, stdout),
        "stderr_truncated": result.stderr_truncated or _is_cut(result.stderr, stderr),
    }


def _is_cut(data: bytes, text: str) -> bool:
    return len(data.decode("utf-8", "replace")) > len(text)


def _ended(end: ProcessEnd) -> JsonObject:
    ended: JsonObject = {"exit_code": end.exit_code}
    if end.signal:
        ended["signal"] = end.signal
    if end.timed_out:
        ended["timed_out"] = True
    return ended


def _note(ctx: ToolContext, end: ProcessEnd) -> None:
    used = CallResources(cpu_seconds=end.cpu_seconds, max_memory_bytes=end.max_memory_bytes)
    ctx.used(used)


def _check_command(command: str) -> None:
    if not command.strip():
        raise ToolFailure("the command is empty")
    if "\0" in command:
        raise ToolFailure("the command contains a NUL character")

"""Processes in a workspace: what to run, within which limits, and how it ended."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import attrs

OutputStream: TypeAlias = Literal["stdout", "stderr"]

DEFAULT_OUTPUT_BYTES: Final = 1_000_000
"""The default maximum size, in bytes, of each output stream that is kept."""

_NO_VARIABLES: Final[Mapping[str, str]] = {}


@attrs.frozen(kw_only=True)
class ProcessLimits:
    """Limits for the processes of a workspace; None means no limit of ours.

    Attributes:
        cpu_seconds: CPU time of one process.
        memory_bytes: Memory: of all processes together where a cgroup can be used, otherwise the
            address space of each process.
        processes: The number of processes and threads at a time.
        file_bytes: Size of one file that a process writes.
        wall_seconds: Duration of one command.
    """

    cpu_seconds: float | None = 300.0
    memory_bytes: int | None = 2_000_000_000
    processes: int | None = 256
    file_bytes: int | None = 1_000_000_000
    wall_seconds: float | None = 600.0


@attrs.frozen(kw_only=True)
class ProcessSpec:
    """A command to run.

    Attributes:
        argv: The program and its arguments. A text is run by the shell `/bin/sh`.
        cwd: The directory in the workspace where the command starts.
        env: Environment variables, in addition to those that the workspace sets.
        stdin: The command's standard input.
        timeout: Maximum duration in seconds; the workspace's own limit also applies.
        max_output_bytes: Maximum size of each output stream that is kept, in bytes. The command
            can write more, which is discarded.
    """

    argv: tuple[str, ...] | str
    cwd: str = "."
    env: Mapping[str, str] = _NO_VARIABLES
    stdin: bytes = b""
    timeout: float | None = None
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES


@attrs.frozen(kw_only=True)
class ProcessEnd:
    """The end of a process.

    Attributes:
        exit_code: The exit code; None if a signal ended the process.
        signal: The name of the signal that ended the process, for example `SIGKILL`; otherwise
            empty.
        timed_out: True if the process was ended because it reached its maximum duration.
        duration: Duration in seconds.
        cpu_seconds: CPU time of the process and its children, if known; otherwise 0.
        max_memory_bytes: Largest resident memory of the process, if known; otherwise 0.
    """

    exit_code: int | None = None
    signal: str = ""
    timed_out: bool = False
    duration: float = 0.0
    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0


@attrs.frozen(kw_only=True)
class ProcessResult:
    """A command's output and end.

    Attributes:
        stdout: The beginning of standard output, at most `max_output_bytes`.
        stderr: The beginning of standard error, at most `max_output_bytes`.
        stdout_truncated: True if the command wrote more to standard output.
        stderr_truncated: True if the command wrote more to standard error.
        end: How the command ended.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    end: ProcessEnd

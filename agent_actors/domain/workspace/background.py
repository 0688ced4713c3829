"""Background commands: their state and output."""

from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.workspace.processes import ProcessEnd

BackgroundStatus: TypeAlias = Literal["running", "ended", "killed", "lost"]
BackgroundOwner: TypeAlias = Literal["session", "runtime"]
"""The owner of a background command, with which the command ends at the latest."""

MAX_COMMAND_CHARACTERS: Final = 2_000
"""Maximum length of a command in events and in `BackgroundTask`; the rest is omitted."""


@attrs.frozen(kw_only=True)
class BackgroundTask:
    """The state of a background command.

    Attributes:
        task_id: The id to pass to `BackgroundTasks`.
        command: The command, as the model wrote it.
        status: `running`, `ended` or `killed`; `lost` if its end is not known, for example because
            the program that ran it has ended.
        end: How the command ended; None while it is running, and if its end is not known.
        started_at: Wall-clock time in seconds since the epoch.
        dropped_bytes: The number of bytes of output that were discarded because they were not read
            in time.
        owner: The owner: the `session`, or the `runtime`.
    """

    task_id: str
    command: str
    status: BackgroundStatus = "running"
    end: ProcessEnd | None = None
    started_at: float = 0.0
    dropped_bytes: int = 0
    owner: BackgroundOwner = "session"


@attrs.frozen
class BackgroundOutput:
    """The state of a background command, with its output since the last call.

    Attributes:
        task: The state.
        stdout: New standard output.
        stderr: New standard error.
    """

    task: BackgroundTask
    stdout: bytes = b""
    stderr: bytes = b""

"""The report about a workspace and the resources that a tool call used."""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.workspace.processes import ProcessLimits

Network: TypeAlias = bool | tuple[str, ...]
"""True for every host, False for none, or the names of the hosts that may be reached."""

WorkspaceKind: TypeAlias = Literal["local", "bubblewrap", "docker", "podman", "custom"]
MemoryLimit: TypeAlias = Literal["none", "per_process", "per_command"]
Processes: TypeAlias = Literal["refused", "unconfined", "sandboxed"]


@attrs.frozen
class Refusal:
    """An operation that the workspace refused.

    Attributes:
        operation: The operation, for example `read` or `connect`.
        target: The path or host.
        reason: Why the workspace refused it.
    """

    operation: str
    target: str
    reason: str


@attrs.frozen(kw_only=True)
class WorkspaceReport:
    """The confinement of a workspace.

    Attributes:
        kind: The implementation.
        root: The root directory.
        allowed_paths: Other directories whose files may be used.
        read_only: True if files cannot be changed.
        protected: The patterns of the files that cannot be changed.
        processes: `refused` if no command can be run, `unconfined` if commands run with the rights
            of this process, `sandboxed` if they are confined.
        network: The hosts that commands and web tools may reach.
        limits: The limits for processes; None if no command can be run.
        memory_limit: `per_command` if the limit of memory applies to all processes of a command
            together, `per_process` if it applies to the address space of each process, `none`
            without a limit.
        unenforced: The names of the limits that this machine does not enforce, with the reasons.
        refusals: The newest refused operations, at most 100.
        refused: The number of all refused operations.
    """

    kind: WorkspaceKind
    root: str
    allowed_paths: tuple[str, ...] = ()
    read_only: bool = False
    protected: tuple[str, ...] = ()
    processes: Processes = "refused"
    network: Network = True
    limits: ProcessLimits | None = None
    memory_limit: MemoryLimit = "none"
    unenforced: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    refused: int = 0


@attrs.frozen(kw_only=True)
class CallResources:
    """The files, hosts and resources that a tool call used.

    Attributes:
        paths: The files, in the form of `FileInfo.path`.
        hosts: The hosts.
        cpu_seconds: CPU time of the call's processes.
        max_memory_bytes: Largest resident memory of a process of the call.
        bytes_read: Bytes read from files and hosts.
        bytes_written: Bytes written to files.
    """

    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


NO_RESOURCES: Final = CallResources()


def joined_resources(parts: Iterable[CallResources]) -> CallResources:
    """Return all resources together: paths and hosts once each, sums, and the largest memory."""
    found = tuple(parts)
    return CallResources(
        paths=tuple(dict.fromkeys(path for part in found for path in part.paths)),
        hosts=tuple(dict.fromkeys(host for part in found for host in part.hosts)),
        cpu_seconds=sum(part.cpu_seconds for part in found),
        max_memory_bytes=max((part.max_memory_bytes for part in found), default=0),
        bytes_read=sum(part.bytes_read for part in found),
        bytes_written=sum(part.bytes_written for part in found),
    )

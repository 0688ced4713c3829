"""Find the cgroups in which this program may limit the memory and the number of its commands.

A cgroup limits all processes of a command together. Each command gets a cgroup of its own below one
that this program may write. Both versions of the interface are supported: with version 1 each
controller has its own hierarchy (https://docs.kernel.org/admin-guide/cgroup-v1/), with version 2
all controllers share one (https://docs.kernel.org/admin-guide/cgroup-v2.html).
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from agent_actors.domain.workspace.processes import ProcessLimits

_SELF: Final = Path("/proc/self")


@attrs.frozen
class CgroupParents:
    """Directories below which this program can create cgroups; empty if there are none.

    Attributes:
        memory: For limits of memory.
        pids: For limits of the number of processes.
        unified: True for version 2 of the interface.
    """

    memory: str = ""
    pids: str = ""
    unified: bool = False

    def values_of(self, limits: ProcessLimits, overhead: int) -> dict[str, dict[str, str]]:
        """Return the files to write for a command, by the directory of the parent.

        Args:
            limits: The limits of the command.
            overhead: The number of processes that belong to the sandbox program.
        """
        found: dict[str, dict[str, str]] = {}
        if self.memory and limits.memory_bytes is not None:
            limit = str(max(1, int(limits.memory_bytes)))
            found[self.memory] = (
                {"memory.max": limit, "memory.swap.max": "0", "memory.oom.group": "1"}
                if self.unified
                else {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}
            )
        if self.pids and limits.processes is not None:
            number = max(1, int(limits.processes)) + overhead
            found.setdefault(self.pids, {})["pids.max"] = str(number)
        return found


@cache
def find_cgroups() -> CgroupParents:
    """Return the cgroups that this program can use; tried once per process."""
    return usable_cgroups(_SELF, _is_usable)


def usable_cgroups(process: Path, is_usable: Callable[[Path, str], bool]) -> CgroupParents:
    """Return the cgroups that a process can use.

    Args:
        process: The directory of the process in procfs.
        is_usable: Returns whether a cgroup with a limit of this name can be created in a directory.
    """
    try:
        own = dict(_own_paths((process / "cgroup").read_text("utf-8")))
        mounts = dict(_mounts((process / "mountinfo").read_text("utf-8")))
    except OSError:  # procfs is not mounted
        return CgroupParents()

    def parent(directory: Path | None, limit: str) -> str:
        usable = directory is not None and is_usable(directory, limit)
        return str(directory) if usable else ""

    memory = parent(_directory(mounts, own, "memory"), "memory.limit_in_bytes")
    pids = parent(_directory(mounts, own, "pids"), "pids.max")
    if memory or pids:
        return CgroupParents(memory, pids)
    unified = _passing_on(_directory(mounts, own, ""))
    return CgroupParents(parent(unified, "memory.max"), parent(unified, "pids.max"), unified=True)


def _own_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield each controller and the path of this process's cgroup; `""` for version 2."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounts(text: str) -> Iterator[tuple[str, tuple[str, Path]]]:
    """Yield each controller, and the root and the mount point of its hierarchy."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        fields = before.split(" ")
        root, point = fields[3], Path(fields[4])
        if kind == "cgroup2":
            yield "", (root, point)
        elif kind == "cgroup":
            for option in options.split(","):
                yield option, (root, point)


def _directory(
    mounts: Mapping[str, tuple[str, Path]], own: Mapping[str, str], controller: str
) -> Path | None:
    """Return the directory of this process's cgroup, if it is in what is mounted."""
    if controller not in mounts or controller not in own:
        return None
    root, point = mounts[controller]
    relative = os.path.relpath(own[controller], root)
    if relative.startswith(".."):
        return None
    return point / relative


def _passing_on(directory: Path | None) -> Path | None:
    """Return a cgroup of version 2 that passes controllers on to the cgroups below it.

    A cgroup that contains processes can do so only if it is the root. Otherwise, the commands get
    cgroups next to that of this program.
    """
    candidates = () if directory is None else (directory, directory.parent)
    for candidate in candidates:
        with suppress(OSError):
            passed_on = (candidate / "cgroup.subtree_control").read_text("utf-8").split()
            if {"memory", "pids"} & set(passed_on):
                return candidate
    return None


def _is_usable(parent: Path, limit: str) -> bool:
    probe = parent / f"agent-actors-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        names = (probe / limit, probe / "cgroup.procs", parent / "cgroup.procs")
        return all(os.access(name, os.W_OK) for name in names)
    finally:
        probe.rmdir()

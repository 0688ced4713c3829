"""The resources of this process that a test must release: sockets, threads and child processes.

A snapshot is taken before each test and compared with one taken after it. Sockets are identified by
inode, so that a closed socket does not hide a leaked one. Sockets and child processes are read from
`/proc`; on systems without it, only threads are checked.
"""

import re
import threading
import time
from pathlib import Path
from typing import Final

import attrs

_FDS: Final = Path("/proc/self/fd")
_TASKS: Final = Path("/proc/self/task")
# trio keeps idle worker threads for later calls. While a worker runs a job, it has the job's name.
_IDLE_TRIO_WORKER: Final = re.compile(r"Trio thread \d+")
# Seconds that a resource may take to disappear. Only a failing test waits so long.
_GRACE: Final = 2.0
_POLL: Final = 0.005


def _sockets() -> frozenset[str]:
    found: set[str] = set()
    for fd in _FDS.iterdir() if _FDS.is_dir() else ():
        try:
            target = str(fd.readlink())
        except OSError:  # closed since the listing, like the descriptor of the listing
            continue
        if target.startswith("socket:"):
            found.add(target)
    return frozenset(found)


def _children() -> frozenset[str]:
    found: set[str] = set()
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            pids = (task / "children").read_text()
        except OSError:  # the thread has ended, or the kernel does not list children
            continue
        found.update(pids.split())
    return frozenset(found)


def _threads() -> frozenset[threading.Thread]:
    return frozenset(
        thread for thread in threading.enumerate() if not _IDLE_TRIO_WORKER.fullmatch(thread.name)
    )


@attrs.frozen
class Snapshot:
    """The sockets, threads and child processes of this process at one moment."""

    sockets: frozenset[str]
    threads: frozenset[threading.Thread]
    children: frozenset[str]

    @classmethod
    def take(cls) -> "Snapshot":
        """Return a snapshot of the present state."""
        return cls(sockets=_sockets(), threads=_threads(), children=_children())

    def left_behind(self, *, grace: float = _GRACE) -> list[str]:
        """Return what has appeared since the snapshot and still exists after `grace` seconds."""
        deadline = time.monotonic() + grace
        while (left := self._difference()) and time.monotonic() < deadline:
            time.sleep(_POLL)
        return left

    def _difference(self) -> list[str]:
        now = Snapshot.take()
        return [
            *(f"an open {name}" for name in sorted(now.sockets - self.sockets)),
            *(f"thread {name!r}" for name in sorted(t.name for t in now.threads - self.threads)),
            *(f"child process {pid}" for pid in sorted(now.children - self.children)),
        ]

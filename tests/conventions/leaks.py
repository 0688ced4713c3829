"""What this process holds that a test must give back: sockets, threads and child processes.

A snapshot is taken before a test and compared after it. Sockets are told apart by inode, so that
one closed and one leaked do not cancel out. It reads `/proc`; elsewhere it sees threads only.
"""

import re
import threading
import time
from pathlib import Path
from typing import Final

import attrs

_FDS: Final = Path("/proc/self/fd")
_TASKS: Final = Path("/proc/self/task")
# trio keeps idle worker threads for its next call; while one runs a job it bears the job's name.
_IDLE_TRIO_WORKER: Final = re.compile(r"Trio thread \d+")
# Seconds that what was told to end may take to be gone; only a test that fails waits so long.
_GRACE: Final = 2.0
_POLL: Final = 0.005


def _sockets() -> frozenset[str]:
    found: set[str] = set()
    for fd in _FDS.iterdir() if _FDS.is_dir() else ():
        try:
            target = str(fd.readlink())
        except OSError:  # closed since it was listed, as the descriptor of the listing itself is
            continue
        if target.startswith("socket:"):
            found.add(target)
    return frozenset(found)


def _children() -> frozenset[str]:
    found: set[str] = set()
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            pids = (task / "children").read_text()
        except OSError:  # the thread has ended since, or the kernel does not tell
            continue
        found.update(pids.split())
    return frozenset(found)


def _threads() -> frozenset[threading.Thread]:
    return frozenset(
        thread for thread in threading.enumerate() if not _IDLE_TRIO_WORKER.fullmatch(thread.name)
    )


@attrs.frozen
class Snapshot:
    """The sockets, threads and children of this process at one moment."""

    sockets: frozenset[str]
    threads: frozenset[threading.Thread]
    children: frozenset[str]

    @classmethod
    def take(cls) -> "Snapshot":
        """Look now."""
        return cls(sockets=_sockets(), threads=_threads(), children=_children())

    def left_behind(self, *, grace: float = _GRACE) -> list[str]:
        """Tell what is there now and was not then, once it had `grace` seconds to go."""
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

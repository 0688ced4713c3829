"""Operations that fail, are cancelled or are raced at every single step.

The tests replace functions of `os`, so that each run disturbs another system call of the operation.
"""

import ctypes
import errno
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import pytest

from agent_actors.domain.workspace.files import FileLimits
from agent_actors.domain.workspace.trees import TreeEntry
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.files import Files
from agent_actors.toolbox.workspace.local.protection import Protection
from agent_actors.toolbox.workspace.local.roots import Roots
from agent_actors.toolbox.workspace.local.search.find import find
from agent_actors.toolbox.workspace.local.trees import load, put, scan
from agent_actors.toolbox.workspace.local.writing import Condition
from tests.toolbox.workspace.local.test_local import descriptors

SECRET: Final = b"the secret of the neighbour"
FOREIGN: Final = re.compile(f"{SECRET.decode()}|foreign")
# `unlink`, `rmdir` and `close` clean up, so that their own failure is not a step.
CALLS: Final = (
    "open",
    "mkdir",
    "readlink",
    "fstat",
    "stat",
    "scandir",
    "pread",
    "write",
    "fchmod",
    "fchown",
    "utime",
    "fsync",
    "link",
    "rename",
)


def no_check() -> None:
    pass


def exchange(one: Path, two: Path) -> None:
    """Exchange two directory entries in one step."""
    call = ctypes.CDLL(None, use_errno=True).renameat2
    at_cwd, exchange_flag = -100, 2
    assert call(at_cwd, bytes(one), at_cwd, bytes(two), exchange_flag) == 0


@attrs.frozen
class Scene:
    """A directory tree and the operations on it.

    Attributes:
        base: The directory that contains `root` and `outside`.
        files: The files of the root.
    """

    base: Path
    files: Files

    @property
    def root(self) -> Path:
        return self.base / "root"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    def reset(self) -> None:
        """Prepare the same tree again."""
        for directory in (self.root / "a", self.outside):
            (directory / "b").mkdir(parents=True, exist_ok=True)
        (self.root / "a/b/file.txt").write_bytes(b"old")
        (self.outside / "b/file.txt").write_bytes(SECRET)
        (self.outside / "b/foreign.txt").write_bytes(SECRET)
        with suppress(FileNotFoundError):
            (self.root / "a/new/file.txt").unlink()
            (self.root / "a/new").rmdir()
        if not (self.root / "link").is_symlink():
            (self.root / "link").symlink_to("a/b")

    def swap(self) -> None:
        """Replace the directory `a` by a symlink to the outside."""
        (self.root / "a").rename(self.root / "kept")
        (self.root / "a").symlink_to(self.outside)

    def swap_back(self) -> None:
        if (self.root / "a").is_symlink():
            (self.root / "a").unlink()
            (self.root / "kept").rename(self.root / "a")

    def check(self) -> None:
        """Check that nothing half-written is left, and that nothing outside has changed."""
        assert not list(self.base.rglob(".agent-actors-*"))
        assert (self.outside / "b/file.txt").read_bytes() == SECRET
        outside = sorted(path.name for path in self.outside.rglob("*"))
        assert outside == ["b", "file.txt", "foreign.txt"]
        assert (self.root / "a/b/file.txt").read_bytes() in {b"old", b"new"}
        made = self.root / "a/new"
        assert not made.exists() or (made / "file.txt").read_bytes() == b"new"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "root").mkdir()
    protection = Protection(())
    roots = Roots(str(tmp_path / "root"), (), protection)
    made = Scene(tmp_path, Files(roots, protection, FileLimits(), read_only=False))
    made.reset()
    yield made
    roots.close()


Operation = Callable[[Files, Callable[[], None]], object]

OPERATIONS: Final[dict[str, Operation]] = {
    "read": lambda files, check: files.read("link/../b/file.txt", 0, None, check),
    "replace": lambda files, check: files.write("link/file.txt", b"new", Condition(), check),
    "create": lambda files, check: files.write(
        "a/new/file.txt", b"new", Condition(overwrite=False), check
    ),
    "stat": lambda files, _: files.stat("a/b/file.txt"),
    "list": lambda files, check: files.list("a/b", 10, check),
    "tree": lambda files, check: scan(files, 100, check),
    "load": lambda files, check: load(files, ["a/b/file.txt"], 10, check),
    "restore": lambda files, check: put(
        files,
        TreeEntry(path="a/b/file.txt", kind="file", mode=0o640),
        b"new",
        files.stat("a/b/file.txt").version,
        check,
    ),
    "recreate": lambda files, check: put(
        files, TreeEntry(path="a/new/file.txt", kind="file"), b"new", "", check
    ),
    "glob": lambda files, check: find(files, "**/*.txt", ".", check, limit=10, use_gitignore=True),
}


@attrs.define
class Disturbance:
    """Calls an action before one of the system calls."""

    step: int
    action: Callable[[], None]
    seen: int = 0
    happened: bool = False

    def install(self, patched: pytest.MonkeyPatch) -> None:
        for name in CALLS:
            patched.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            self.seen += 1
            if self.seen == self.step and not self.happened:
                self.happened = True
                self.action()
            return function(*args, **kwargs)

        return call


@pytest.mark.parametrize("name", OPERATIONS)
def test_failed_call_leaves_nothing(
    scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    OPERATIONS[name](scene.files, no_check)  # fills caches
    scene.reset()
    before = descriptors()
    step = 0
    for step in itertools.count(1):
        disturbance = Disturbance(step, fail)
        with monkeypatch.context() as patched:
            disturbance.install(patched)
            with suppress(WorkspaceError):  # reported, never a bare OSError
                OPERATIONS[name](scene.files, no_check)
        assert descriptors() == before, step
        scene.check()
        scene.reset()
        if not disturbance.happened:
            break
    assert step > 5


class Cancelled(BaseException):
    pass


@pytest.mark.feature("OAGS-024")
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "stat"])
def test_cancelled_step_leaves_nothing(scene: Scene, name: str) -> None:
    OPERATIONS[name](scene.files, no_check)
    scene.reset()
    before = descriptors()
    step = 0
    for step in itertools.count(1):
        left = step

        def check() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Cancelled

        try:
            OPERATIONS[name](scene.files, check)
        except Cancelled:
            assert (scene.root / "a/b/file.txt").read_bytes() == b"old"
            assert not (scene.root / "a/new").exists()
        assert descriptors() == before
        scene.check()
        scene.reset()
        if left > 0:
            break
    assert step > 1


@pytest.mark.parametrize("name", OPERATIONS)
def test_swapped_directory_leads_nowhere(
    scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step, a directory of the path becomes a symlink to the outside."""
    step = 0
    for step in itertools.count(1):
        disturbance = Disturbance(step, scene.swap)
        result: object = None
        with monkeypatch.context() as patched:
            disturbance.install(patched)
            with suppress(WorkspaceError):
                result = OPERATIONS[name](scene.files, no_check)
        if disturbance.happened:
            scene.swap_back()
        assert not FOREIGN.search(str(result)), step
        scene.check()
        scene.reset()
        if not disturbance.happened:
            break
    assert step > 5


def test_racing_thread_changes_nothing_outside(scene: Scene) -> None:
    """A thread swaps a directory again and again while operations run."""
    ended = threading.Event()
    interval = sys.getswitchinterval()

    (scene.base / "decoy").symlink_to(scene.outside)

    def race() -> None:
        while not ended.is_set():
            exchange(scene.root / "a", scene.base / "decoy")

    thread = threading.Thread(target=race)
    sys.setswitchinterval(1e-5)
    thread.start()
    succeeded = 0
    try:
        for _ in range(150):
            for operation in OPERATIONS.values():
                with suppress(WorkspaceError):
                    assert not FOREIGN.search(str(operation(scene.files, no_check)))
                    succeeded += 1
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)
    if (scene.root / "a").is_symlink():
        exchange(scene.root / "a", scene.base / "decoy")
    scene.check()
    assert succeeded > 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_keeps_old_content(
    scene: Scene, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(fd: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(WorkspaceError, match=r"disk is full|quota is used up|too large") as raised:
        scene.files.write("a/b/file.txt", b"new", Condition(), no_check)
    assert raised.value.reason == "failed"
    assert (scene.root / "a/b/file.txt").read_bytes() == b"old"
    scene.check()


def test_file_system_without_hard_links_works(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    scene.files.write("a/c.txt", b"new", Condition(overwrite=False), no_check)
    assert (scene.root / "a/c.txt").read_bytes() == b"new"
    created = scene.root / "a/d.txt"

    def create() -> None:
        created.write_bytes(b"other")

    step = 0
    for step in itertools.count(1):
        created.unlink(missing_ok=True)
        disturbance = Disturbance(step, create)
        with monkeypatch.context() as patched:
            disturbance.install(patched)
            with suppress(WorkspaceError):
                scene.files.write("a/d.txt", b"new", Condition(overwrite=False), no_check)
        if not disturbance.happened:
            break
        assert created.read_bytes() in {b"other", b"new"}
    assert created.read_bytes() == b"new"

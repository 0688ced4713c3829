"""A Podman for the tests: its own storage, and an image that contains only busybox.

Where the cgroups of a machine are in hybrid mode, Podman refuses to start. A program named `podman`
then hides the unified hierarchy from it, in a mount namespace of its own.
"""

import io
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.container.engine import find_engine

IMAGE: Final = "localhost/agent-actors-test:1"

_UNIFIED: Final = Path("/sys/fs/cgroup/unified")
_DIRECTORIES: Final = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "usr/local/bin")
# A POSIX shell, tar, the coreutils, and programs for attempts to leave a container.
_PROGRAMS: Final = (
    "base64 cat chmod chown chroot date dd echo env grep head id kill ln ls mkdir mknod mount mv "
    "nc ps pwd readlink rm rmdir seq setsid sh sleep stat su tail tar test touch true umount "
    "unshare wc wget"
)


@contextmanager
def podman() -> Generator[None]:
    """Make `find_engine("podman")` find an engine that works, or skip with its message.

    With the environment variable `CI`, a missing program is a failure.
    """
    program, busybox = shutil.which("podman"), shutil.which("busybox")
    if program is None or busybox is None:
        text = "podman and busybox-static are not installed"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(text)
    # Paths of sockets are short, so the directory is not one of pytest's.
    with tempfile.TemporaryDirectory(prefix="aa-", dir="/tmp", ignore_cleanup_errors=True) as name:
        base = Path(name)
        wrapper = base / "bin" / "podman"
        wrapper.parent.mkdir()
        wrapper.write_text(_wrapper(program, base))
        wrapper.chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{wrapper.parent}:{path}"
        find_engine.cache_clear()
        try:
            _import(wrapper, Path(busybox))
            try:
                find_engine("podman")
            except WorkspaceError as error:
                pytest.skip(str(error))
            yield
        finally:
            os.environ["PATH"] = path
            find_engine.cache_clear()


def _wrapper(program: str, base: Path) -> str:
    arguments = [program, f"--root={base}/storage", f"--runroot={base}/run"]
    arguments.append("--storage-driver=vfs")
    if not _UNIFIED.is_dir() or os.geteuid() != 0:
        return f'#!/bin/sh\nexec {shlex.join(arguments)} "$@"\n'
    arguments.append("--cgroup-manager=cgroupfs")
    inside = f'umount -l {_UNIFIED} 2>/dev/null; exec {shlex.join(arguments)} "$@"'
    return f'#!/bin/sh\nexec unshare -m /bin/sh -c {shlex.quote(inside)} podman "$@"\n'


def _import(podman: Path, busybox: Path) -> None:
    """Import the image, and run a container of it; skip with the message of the engine."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for directory in _DIRECTORIES:
            tar.add("/", directory, recursive=False)
        tar.add(busybox.resolve(), "bin/busybox")
        for name in _PROGRAMS.split():
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    limits = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--network=none")
    for arguments, data in (
        (("import", "-", IMAGE), archive.getvalue()),
        (("run", "--rm", *limits, IMAGE, "/bin/true"), b""),
    ):
        done = subprocess.run([podman, *arguments], input=data, capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"podman does not work here: {done.stderr.decode()[-500:]}")

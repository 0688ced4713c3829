"""Interfaces of Linux that Python's `os` module does not have."""

import ctypes
import errno
import functools
import os
import platform
import sys
from pathlib import Path
from typing import Final

from agent_actors.errors import WorkspaceError

_FDS: Final = Path("/proc/self/fd")
_RENAME_NOREPLACE: Final = 1

# File systems whose files are interfaces of the kernel (linux/magic.h). Reading them reveals the
# environment and the memory of processes, and writing them changes the machine.
KERNEL_FILE_SYSTEMS: Final = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0xF97CFF8C,  # selinuxfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0xCAFE4A11,  # bpf
        0x62656570,  # configfs
        0xDE5E81E4,  # efivarfs
        0x6165676C,  # pstore
        0x42494E4D,  # binfmt_misc
        0x19800202,  # mqueue
        0x1CD1,  # devpts
    }
)
KERNEL_FILE_SYSTEM_NAMES: Final = frozenset(
    {
        "proc",
        "sysfs",
        "debugfs",
        "tracefs",
        "securityfs",
        "selinuxfs",
        "cgroup",
        "cgroup2",
        "bpf",
        "configfs",
        "efivarfs",
        "pstore",
        "binfmt_misc",
        "mqueue",
        "devpts",
    }
)


def check_system() -> None:
    """Check that the file operations of workspaces work on this system.

    Raises:
        WorkspaceError: The system is not Linux, or `/proc` is not mounted (reason `unavailable`).
    """
    if sys.platform != "linux":
        raise WorkspaceError(
            f"local workspaces need Linux, and this system is {sys.platform}; run the program on "
            "Linux, for example in a container",
            reason="unavailable",
        )
    if not _FDS.is_dir():
        raise WorkspaceError(
            "local workspaces need /proc/self/fd; mount the proc file system at /proc",
            reason="unavailable",
        )


def reopen(fd: int, flags: int) -> int:
    """Open the file of an `O_PATH` descriptor for reading or writing; never another file."""
    return os.open(f"{_FDS}/{fd}", flags | os.O_CLOEXEC)


def is_kernel_interface(fd: int) -> bool:
    """Return whether a file is in procfs, sysfs or a similar file system."""
    buffer = ctypes.create_string_buffer(512)
    if _libc().fstatfs(fd, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # The type is the first field: a `long`, except on s390, where it is an `unsigned int`.
    size = 4 if platform.machine().startswith("s390") else ctypes.sizeof(ctypes.c_long)
    kind = int.from_bytes(buffer.raw[:size], sys.byteorder) & 0xFFFFFFFF
    return kind in KERNEL_FILE_SYSTEMS


def rename_without_replacing(directory: int, old: str, new: str) -> None:
    """Rename a file within a directory; raise FileExistsError if the new name is in use."""
    try:
        call = _libc().renameat2
    except AttributeError:  # musl before 1.2.6, glibc before 2.28
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    names = os.fsencode(old), os.fsencode(new)
    if call(directory, names[0], directory, names[1], _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

"""The directories that a workspace gives access to, each opened once and held."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import failure, os_failure
from agent_actors.toolbox.workspace.local.linux import is_kernel_interface
from agent_actors.toolbox.workspace.local.protection import Identity, Protection

MAX_PATH: Final = 4_096
"""The maximum length of a path, in bytes of UTF-8; Linux has the same limit."""
MAX_NAME: Final = 255
"""The maximum length of a component, in bytes of UTF-8; Linux has the same limit."""

_HELD: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@attrs.frozen(eq=False)
class Root:
    """A directory that a workspace gives access to.

    Attributes:
        fd: The descriptor, opened with `O_PATH`.
        path: The absolute path without symlinks.
        prefixes: The components of the absolute paths that lead to the directory.
        identity: The device and the inode.
        known: Protected directories, as they were when the root was opened.
    """

    fd: int
    path: str
    prefixes: tuple[tuple[str, ...], ...]
    identity: Identity
    known: dict[Identity, str]


class Roots:
    """All directories that a workspace gives access to; the first one is its root.

    Args:
        root: The workspace's root.
        allowed_paths: Other directories.
        protection: The protected paths.

    Raises:
        WorkspaceError: A directory does not exist, or cannot be used.
    """

    def __init__(self, root: str, allowed_paths: Iterable[str], protection: Protection) -> None:
        self._roots: list[Root] = []
        try:
            for path in (root, *allowed_paths):
                self._roots.append(_open_root(path, protection))
        except BaseException:
            self.close()
            raise

    @property
    def main(self) -> Root:
        """The workspace's root."""
        return self._roots[0]

    @property
    def paths(self) -> tuple[str, ...]:
        """The absolute paths of the roots."""
        return tuple(root.path for root in self._roots)

    def close(self) -> None:
        """Close the descriptors."""
        while self._roots:
            os.close(self._roots.pop().fd)

    def match(self, path: str) -> tuple[Root, list[str]] | None:
        """Return the root that an absolute path is in, and the components below it.

        The components are compared as text. `..` is not resolved, because its meaning depends on
        symlinks: the walk resolves it below the root.
        """
        names = split(path)
        for root in self._roots:
            for prefix in root.prefixes:
                if tuple(names[: len(prefix)]) == prefix:
                    return root, names[len(prefix) :]
        return None

    def shown(self, root: Root, names: Iterable[str]) -> str:
        """Return the path of a file in the form of `FileInfo.path`."""
        below = "/".join(names)
        if root is self.main:
            return below or "."
        path = f"{root.path.rstrip('/')}/{below}" if below else root.path
        main = self.main.path.rstrip("/")
        if path == main or path.startswith(f"{main}/"):
            return path[len(main) + 1 :] or "."
        return path


def split(path: str) -> list[str]:
    """Return the components of a path without empty ones and `.`."""
    return [name for name in path.split("/") if name not in {"", "."}]


def check_path(path: str) -> None:
    """Check that a text can be a path.

    Raises:
        WorkspaceError: The path is empty, too long, or contains NUL (reason `invalid`).
    """
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise failure(path, "invalid", "the path is not valid Unicode") from None
    if not path:
        raise failure(path, "invalid", "the path is empty; `.` is the root of the workspace")
    if "\0" in path:
        raise failure(path, "invalid", "the path contains a NUL character")
    if len(encoded) >= MAX_PATH:
        raise failure(path, "invalid", f"the path must be shorter than {MAX_PATH:,} bytes")
    if len(encoded) > MAX_NAME and any(len(n.encode()) > MAX_NAME for n in path.split("/")):
        raise failure(path, "invalid", f"a component is longer than {MAX_NAME} bytes")


def _open_root(path: str, protection: Protection) -> Root:
    given = os.path.abspath(path)  # noqa: PTH100 - pathlib would not remove `..`
    try:
        fd = os.open(given, _HELD)
    except OSError as error:
        raise _unusable(path, os_failure(path, error)) from error
    try:
        if is_kernel_interface(fd):
            raise failure(path, "refused", "a file system of the kernel cannot be a workspace")
        status = os.fstat(fd)
        real = str(Path(f"/proc/self/fd/{fd}").readlink())
        prefixes = tuple(dict.fromkeys((tuple(split(given)), tuple(split(real)))))
        identity = (status.st_dev, status.st_ino)
        return Root(fd, real, prefixes, identity, _protected_now(fd, protection))
    except BaseException:
        os.close(fd)
        raise


def _unusable(path: str, error: WorkspaceError) -> WorkspaceError:
    return WorkspaceError(
        f"the directory of the workspace cannot be opened: {error}", reason=error.reason, path=path
    )


def _protected_now(fd: int, protection: Protection) -> dict[Identity, str]:
    """Return the identities of the protected directories, to recognize them after a rename."""
    known: dict[Identity, str] = {}
    for names in protection.directories():
        held = os.dup(fd)
        try:
            for name in names:
                below = os.open(name, _HELD | os.O_NOFOLLOW, dir_fd=held)
                os.close(held)
                held = below
            status = os.fstat(held)
        except OSError:
            continue  # the directory does not exist
        finally:
            os.close(held)
        if stat.S_ISDIR(status.st_mode):
            known[status.st_dev, status.st_ino] = names[-1]
    return known

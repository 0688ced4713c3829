"""The port through which a run reads files of a project."""

from pathlib import Path
from typing import Protocol

from agent_actors.domain.workspace.project import FileText, FoundFiles


class ProjectFiles(Protocol):
    """Reads files of a project. All methods block, and are called in worker threads.

    Files of a project are untrusted. Every method has a bounded cost, and reads nothing outside the
    directory `root` that the caller names.
    """

    def find(self, root: Path, folder: Path, name: str, limit: int) -> FoundFiles:
        """Find regular files by name, in a directory and the directories below it.

        The order is stable: by path, with the entries of each directory sorted by name. Symlinks to
        directories are not followed.

        Args:
            root: The directory that contains everything that may be read.
            folder: The directory to search; it need not exist.
            name: The name of the files, or `*` followed by the end of the names.
            limit: The maximum number of files to return. More files are a problem in the result.
        """
        ...

    def read(self, root: Path, path: Path, limit: int) -> FileText | None:
        """Read the beginning of a file, as it was at one moment.

        Args:
            root: The directory that must contain the file, after symlinks are resolved.
            path: The path of the file, absolute.
            limit: The maximum number of bytes to read.

        Returns:
            The text; None if no file has this path.

        Raises:
            WorkspaceError: The file is outside the root, is not a regular file, cannot be read, or
                changed each time that it was read.
        """
        ...

    def find_above(self, folder: Path, name: str) -> Path | None:
        """Return the nearest directory, from a folder upward, that has an entry with this name.

        Returns:
            The absolute path of the directory; None if no directory has such an entry.
        """
        ...

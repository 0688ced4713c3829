"""Stores the complete texts of truncated tool results in files, one directory per session.

The files are not part of the log, so they are neither flushed to the disk nor locked. Two instances
of a store never write the same file, because only one of them holds the session. However, threads
of one instance may write several texts of a session at the same time.
"""

import errno
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from agent_actors.stores.disk.file_names import directory_name
from agent_actors.stores.disk.safe_files import file, folder, make_folder, write_all

# The suffix of a file that is still being written.
_NEW: Final = ".new"
# Maximum number of bytes of a session's texts. If it is exceeded, the oldest texts are removed.
MAX_BYTES_PER_SESSION: Final = 512 * 2**20


class ResultFiles:
    """The files in one directory.

    Args:
        path: The directory, which is created with the first file.
        max_bytes: The maximum number of bytes in the files of one session.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES_PER_SESSION) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def keep(self, session_id: str, call_id: str, chunks: Sequence[bytes]) -> None:
        """Write a text, replacing an earlier text for the same call.

        Raises:
            OSError: The text could not be written. An earlier text is unchanged.
        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._root() as root:
            make_folder(directory_name(session_id), root)
            with folder(directory_name(session_id), root) as found:
                self._write(_file_name(call_id), found, chunks)
                self._remove_oldest(found)

    def read(self, session_id: str, call_id: str, offset: int, size: int) -> bytes | None:
        """Return a part of a text; None if the text is not stored.

        Raises:
            OSError: The text could not be read.
        """
        with (
            suppress(FileNotFoundError),
            self._root() as root,
            folder(directory_name(session_id), root) as found,
            file(_file_name(call_id), found, os.O_RDONLY) as text,
        ):
            return os.pread(text, size, offset)
        return None

    def delete(self, session_id: str) -> None:
        """Delete a session's texts, if there are any.

        Raises:
            OSError: A file could not be deleted.
        """
        name = directory_name(session_id)
        with suppress(FileNotFoundError), self._root() as root:
            while not _delete_folder(name, root):
                pass  # another thread has written a text meanwhile

    @contextmanager
    def _root(self) -> Generator[int]:
        found = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield found
        finally:
            os.close(found)

    def _write(self, name: str, parent: int, chunks: Sequence[bytes]) -> None:
        new = name + _NEW
        try:
            with file(new, parent, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as text:
                for chunk in chunks:
                    write_all(text, chunk)
            os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            with suppress(OSError):
                os.unlink(new, dir_fd=parent)
            raise

    def _remove_oldest(self, parent: int) -> None:
        found: dict[str, os.stat_result] = {}
        for name in _names_in(parent):
            if not name.endswith(_NEW):
                with suppress(FileNotFoundError):  # another thread has removed it
                    found[name] = os.stat(name, dir_fd=parent, follow_symlinks=False)
        used = sum(stat.st_size for stat in found.values())
        for name in sorted(found, key=lambda one: found[one].st_mtime_ns):
            if used <= self._max_bytes:
                return
            _unlink(name, parent)
            used -= found[name].st_size


def _names_in(parent: int) -> list[str]:
    return os.listdir(parent)


def _unlink(name: str, parent: int) -> None:
    with suppress(FileNotFoundError):  # another thread has removed it
        os.unlink(name, dir_fd=parent)


def _delete_folder(name: str, root: int) -> bool:
    """Delete a folder and its files; return False if another thread has added a file meanwhile."""
    with folder(name, root) as found:
        for one in _names_in(found):
            _unlink(one, found)
    try:
        os.rmdir(name, dir_fd=root)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _file_name(call_id: str) -> str:
    # Call ids come from endpoints and may contain any characters.
    return f"{sha256(call_id.encode(errors='surrogatepass')).hexdigest()}.txt"

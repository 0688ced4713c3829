"""A workspace in memory, for tests of agents and tools that use files and commands."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from posixpath import basename, dirname
from typing import Final, NoReturn, TypeAlias

import attrs
import trio

from agent_actors.domain.workspace.files import (
    MAX_MATCHES,
    FileData,
    FileInfo,
    GrepMatch,
    GrepMatches,
    GrepQuery,
    Listing,
    PathMatches,
)
from agent_actors.domain.workspace.processes import (
    OutputStream,
    ProcessEnd,
    ProcessLimits,
    ProcessResult,
    ProcessSpec,
)
from agent_actors.domain.workspace.report import Refusal, WorkspaceReport
from agent_actors.errors import WorkspaceError, WorkspaceFailure

Commands: TypeAlias = (
    Mapping[str, ProcessResult] | Callable[[ProcessSpec], Awaitable[ProcessResult]]
)

_NO_FILES: Final[Mapping[str, str | bytes]] = {}
_ROOT: Final = "/workspace"
_MAX_READ_BYTES: Final = 50_000_000
_MAX_LINE: Final = 1_000
_REFUSALS: Final = 100


@attrs.frozen
class _File:
    data: bytes
    version: str


class MemoryWorkspace:
    """A `Workspace` whose files are in memory. It has no symlinks and starts no processes.

    `.gitignore` files have no effect, and wildcards also match hidden files.

    Args:
        files: The files by path, as text or bytes.
        commands: The results of commands by command line, or an async function that returns them.
            A command that is not in the mapping ends with exit code 127. If None, commands are
            refused.
        read_only: True if files cannot be changed.
        protected: Glob patterns of paths that cannot be changed.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] = _NO_FILES,
        *,
        commands: Commands | None = None,
        read_only: bool = False,
        protected: tuple[str, ...] = (),
    ) -> None:
        self._files: dict[str, _File] = {}
        self._directories: set[str] = {"."}
        self._commands = commands
        self._read_only = read_only
        self._protected = protected
        self._refusals: list[Refusal] = []
        self._versions = 0
        self._closed = False
        for path, content in files.items():
            self.put(path, content)

    @property
    def files(self) -> Mapping[str, bytes]:
        """The contents of all files by path, sorted."""
        return {path: self._files[path].data for path in sorted(self._files)}

    def text(self, path: str) -> str:
        """Return the text of a file in UTF-8.

        Raises:
            KeyError: The file does not exist.
        """
        return self._files[path].data.decode()

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file as another program would, without any check of rights.

        Raises:
            WorkspaceError: The path leads outside the workspace.
        """
        where = self._resolve("write", path)
        data = content.encode() if isinstance(content, str) else content
        self._versions += 1
        self._files[where] = _File(data, str(self._versions))
        self._directories.update(_parents(where))

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileData:
        """Read a file; see `Workspace.read`."""
        await trio.lowlevel.checkpoint()
        where = self._resolve("read", path)
        file = self._file(where, path)
        end = offset + (_MAX_READ_BYTES if limit is None else limit)
        return FileData(self._info(where), file.data[offset:end], end < len(file.data))

    async def write(
        self, path: str, data: bytes, *, overwrite: bool = True, expected: str | None = None
    ) -> FileInfo:
        """Write a file; see `Workspace.write`.

        Cancellation: the file has either its old or its new content.
        """
        await trio.lowlevel.checkpoint()
        where = self._changeable("write", path)
        if where in self._directories:
            raise _error("not_a_file", f"{path} is a directory", path)
        if any(parent in self._files for parent in _parents(where)):
            raise _error("not_a_directory", f"a parent of {path} is a file", path)
        current = self._files.get(where)
        if current is not None and not overwrite:
            raise _error("exists", f"{path} already exists", path)
        if expected is not None and (current is None or current.version != expected):
            raise _error("changed", f"another program changed {path}", path)
        self.put(path, data)
        info = self._info(where)
        await trio.lowlevel.checkpoint()
        return info

    async def stat(self, path: str) -> FileInfo:
        """Return the state of a file or directory; see `Workspace.stat`."""
        await trio.lowlevel.checkpoint()
        where = self._resolve("stat", path)
        if where not in self._directories:
            self._file(where, path)
        return self._info(where)

    async def list(self, path: str = ".", *, limit: int = MAX_MATCHES) -> Listing:
        """Return the entries of a directory; see `Workspace.list`."""
        await trio.lowlevel.checkpoint()
        where = self._directory("list", path)
        names = sorted(
            entry
            for entry in (*self._files, *self._directories)
            if entry != "." and (dirname(entry) or ".") == where
        )
        return Listing(tuple(map(self._info, names[:limit])), len(names) > limit)

    async def glob(
        self,
        pattern: str,
        path: str = ".",
        *,
        limit: int = MAX_MATCHES,
        use_gitignore: bool = False,
    ) -> PathMatches:
        """Return the files that match a pattern; see `Workspace.glob`."""
        del use_gitignore
        await trio.lowlevel.checkpoint()
        where = self._directory("glob", path)
        matches = _glob(pattern)
        found = [one for one in sorted(self._files) if matches(_below(one, where))]
        return PathMatches(tuple(found[:limit]), len(found) > limit)

    async def grep(self, query: GrepQuery) -> GrepMatches:
        """Search the content of files; see `Workspace.grep`."""
        await trio.lowlevel.checkpoint()
        where = self._resolve("grep", query.path)
        if where not in self._directories:
            self._file(where, query.path)
        flags = re.IGNORECASE if query.ignore_case else re.NOFLAG
        flags |= re.DOTALL | re.MULTILINE if query.multiline else re.NOFLAG
        try:
            pattern = re.compile(query.pattern, flags)
        except re.error as error:
            message = f"{query.pattern!r:.80} is not a regular expression: {error}"
            raise _error("failed", message, query.path) from None
        wanted = _glob(query.file_glob) if query.file_glob else None
        by_name = "/" not in query.file_glob
        skipped = 0
        found: list[GrepMatch] = []
        for path in sorted(self._files):
            below = basename(path) if path == where else _below(path, where)
            if not below or (wanted and not wanted(basename(below) if by_name else below)):
                continue
            data = self._files[path].data
            if b"\0" in data:
                skipped += 1
                continue
            lines = data.decode("utf-8", "replace")
            found += islice(_matches(path, lines, pattern, query), query.limit + 1 - len(found))
        return GrepMatches(tuple(found[: query.limit]), len(found) > query.limit, skipped)

    async def remove(self, path: str) -> None:
        """Remove a file or an empty directory; see `Workspace.remove`.

        Cancellation: the file is removed or not.
        """
        await trio.lowlevel.checkpoint()
        where = self._changeable("remove", path)
        if where in self._directories:
            if where == "." or any(
                _below(one, where) for one in (*self._files, *self._directories)
            ):
                raise _error("not_empty", f"the directory {path} is not empty", path)
            self._directories.remove(where)
        else:
            self._file(where, path)
            del self._files[where]
        await trio.lowlevel.checkpoint()

    async def exec(self, spec: ProcessSpec) -> ProcessResult:
        """Return the result of a command; see `Workspace.exec`."""
        await trio.lowlevel.checkpoint()
        self._directory("exec", spec.cwd)
        line = spec.argv if isinstance(spec.argv, str) else " ".join(spec.argv)
        if self._commands is None:
            self._refuse("exec", line, "this workspace runs no commands")
        if callable(self._commands):
            result = await self._commands(spec)
        else:
            unknown = ProcessResult(
                stderr=f"{line}: command not found\n".encode(), end=ProcessEnd(exit_code=127)
            )
            result = self._commands.get(line, unknown)
        limit = spec.max_output_bytes
        return attrs.evolve(
            result,
            stdout=result.stdout[:limit],
            stderr=result.stderr[:limit],
            stdout_truncated=result.stdout_truncated or len(result.stdout) > limit,
            stderr_truncated=result.stderr_truncated or len(result.stderr) > limit,
        )

    async def start(
        self, spec: ProcessSpec, on_output: Callable[[OutputStream, bytes], None]
    ) -> "MemoryProcess":
        """Run a command to its end, pass on its output, and return the ended process."""
        unlimited = attrs.evolve(spec, timeout=None, max_output_bytes=_MAX_READ_BYTES)
        result = await self.exec(unlimited)
        if result.stdout:
            on_output("stdout", result.stdout)
        if result.stderr:
            on_output("stderr", result.stderr)
        return MemoryProcess(result.end)

    def describe(self) -> WorkspaceReport:
        """Return the confinement and the refused operations."""
        return WorkspaceReport(
            kind="custom",
            root=_ROOT,
            read_only=self._read_only,
            protected=self._protected,
            processes="refused" if self._commands is None else "sandboxed",
            network=False,
            limits=None if self._commands is None else ProcessLimits(),
            refusals=tuple(self._refusals[-_REFUSALS:]),
            refused=len(self._refusals),
        )

    async def aclose(self) -> None:
        """Close the workspace. Later operations raise `WorkspaceError`; files stay readable."""
        self._closed = True
        await trio.lowlevel.checkpoint()

    def _resolve(self, operation: str, path: str) -> str:
        if self._closed:
            raise _error("unavailable", "the workspace is closed", path)
        if not path or "\0" in path:
            raise _error("refused", f"{path!r} is not a path", path)
        inside = path
        if path.startswith("/"):
            if path != _ROOT and not path.startswith(f"{_ROOT}/"):
                self._refuse(operation, path, "the path is outside the workspace")
            inside = path.removeprefix(_ROOT)
        parts: list[str] = []
        for part in inside.split("/"):
            if part == ".." and not parts:
                self._refuse(operation, path, "the path is outside the workspace")
            elif part == "..":
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return "/".join(parts) or "."

    def _refuse(self, operation: str, target: str, reason: str) -> NoReturn:
        self._refusals.append(Refusal(operation, target, reason))
        raise _error("refused", f"{operation} of {target} was refused: {reason}", target)

    def _changeable(self, operation: str, path: str) -> str:
        where = self._resolve(operation, path)
        if self._read_only:
            self._refuse(operation, path, "the workspace is read-only")
        if self._is_protected(where):
            reason = "agents cannot change this file"
            self._refusals.append(Refusal(operation, path, reason))
            raise _error("protected", f"{path} is protected: {reason}", path)
        return where

    def _is_protected(self, where: str) -> bool:
        return any(fnmatchcase(where, pattern) for pattern in self._protected)

    def _file(self, where: str, path: str) -> _File:
        if where in self._directories:
            raise _error("not_a_file", f"{path} is a directory", path)
        file = self._files.get(where)
        if file is None:
            raise _error("not_found", f"the file {path} does not exist", path)
        return file

    def _directory(self, operation: str, path: str) -> str:
        where = self._resolve(operation, path)
        if where not in self._directories:
            self._file(where, path)
            raise _error("not_a_directory", f"{path} is not a directory", path)
        return where

    def _info(self, where: str) -> FileInfo:
        protected = self._is_protected(where)
        file = self._files.get(where)
        if file is None:
            return FileInfo(where, "directory", protected=protected)
        return FileInfo(where, "file", len(file.data), file.version, protected)


@attrs.frozen
class MemoryProcess:
    """A command of a `MemoryWorkspace`, which has already ended.

    Attributes:
        end: How the command ended.
    """

    end: ProcessEnd

    async def wait(self) -> ProcessEnd:
        """Return the end."""
        await trio.lowlevel.checkpoint()
        return self.end

    async def kill(self) -> ProcessEnd:
        """Return the end."""
        return await self.wait()


def _error(reason: WorkspaceFailure, message: str, path: str) -> WorkspaceError:
    return WorkspaceError(message, reason=reason, path=path)


def _parents(where: str) -> Iterator[str]:
    while where := dirname(where):
        yield where


def _below(path: str, directory: str) -> str:
    """Return the path relative to a directory; empty if the path is not below the directory."""
    if directory == ".":
        return "" if path == "." else path
    return path.removeprefix(f"{directory}/") if path.startswith(f"{directory}/") else ""


def _matches(
    path: str, text: str, pattern: re.Pattern[str], query: GrepQuery
) -> Iterator[GrepMatch]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if query.multiline:
        numbers = sorted({text.count("\n", 0, found.start()) for found in pattern.finditer(text)})
    else:
        numbers = [at for at, line in enumerate(lines) if pattern.search(line)]
    for at in numbers:
        if at < len(lines):
            yield GrepMatch(
                path,
                at + 1,
                lines[at][:_MAX_LINE],
                tuple(lines[max(0, at - query.before) : at]),
                tuple(lines[at + 1 : at + 1 + query.after]),
            )


def _glob(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a relative path matches a pattern."""
    compiled = [re.compile(_regex(one)) for one in _braces(pattern)]
    return lambda path: bool(path) and any(one.fullmatch(path) for one in compiled)


def _braces(pattern: str) -> list[str]:
    """Return the alternatives of a pattern with braces."""
    group = re.search(r"\{([^{}]*)\}", pattern)
    if group is None:
        return [pattern]
    head, tail = pattern[: group.start()], pattern[group.end() :]
    return [full for part in group[1].split(",") for full in _braces(f"{head}{part}{tail}")]


def _regex(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^]]+\])", pattern)
    forms = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(forms.get(part) or _literal(part) for part in parts)


def _literal(part: str) -> str:
    """Return the expression for a set of characters or for plain text."""
    if part.startswith("[!"):
        return f"[^{part[2:]}"
    return part if part.startswith("[") else re.escape(part)

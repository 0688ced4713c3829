"""Files of a workspace: their state, listings and search results."""

from typing import Final, Literal, TypeAlias

import attrs

FileKind: TypeAlias = Literal["file", "directory", "other"]
"""The kind of a file; `other` includes symlinks that lead nowhere, FIFOs, sockets and devices."""

MAX_MATCHES: Final = 1_000
"""The default maximum number of paths or matching lines that a search returns."""


@attrs.frozen(kw_only=True)
class FileLimits:
    """Limits for the file operations of a workspace.

    Attributes:
        read_bytes: Maximum number of bytes that one call of `Workspace.read` returns.
        write_bytes: Maximum size of a file that is written, in bytes.
        search_file_bytes: Maximum size of a file whose content is searched, in bytes.
        search_entries: Maximum number of directory entries that one search visits.
        search_seconds: Maximum duration of one search.
    """

    read_bytes: int = 10_000_000
    write_bytes: int = 100_000_000
    search_file_bytes: int = 10_000_000
    search_entries: int = 1_000_000
    search_seconds: float = 20.0


@attrs.frozen
class FileInfo:
    """The state of a file when it was opened.

    Attributes:
        path: The path, relative to the root with `/` as separator; absolute if the file is below
            another allowed path. The root is `.`.
        kind: The kind of file that the path leads to.
        size: Size in bytes; 0 unless the file is a regular file.
        version: An opaque text that differs when the content may have changed. Pass it as
            `expected` to `Workspace.write`.
        protected: True if the workspace refuses to change the file, for example `.git/config`.
    """

    path: str
    kind: FileKind
    size: int = 0
    version: str = ""
    protected: bool = False


@attrs.frozen
class FileData:
    """A file's content, or a part of it.

    Attributes:
        info: The state of the file when it was read.
        data: The content, from the requested offset on.
        truncated: True if the file continues after `data`.
    """

    info: FileInfo
    data: bytes
    truncated: bool = False


@attrs.frozen
class Listing:
    """The entries of a directory, sorted by name.

    Attributes:
        entries: The entries; the `path` of each is its path in the workspace, not its bare name.
        truncated: True if the directory has more entries.
    """

    entries: tuple[FileInfo, ...]
    truncated: bool = False


@attrs.frozen
class PathMatches:
    """The files that match a pattern, sorted by path.

    Attributes:
        paths: The paths, in the form of `FileInfo.path`.
        truncated: True if more files match.
    """

    paths: tuple[str, ...]
    truncated: bool = False


@attrs.frozen(kw_only=True)
class GrepQuery:
    """A search in the content of files.

    Attributes:
        pattern: A regular expression, in the syntax that Rust's `regex` and Python's `re` share.
        path: The file or directory to search.
        file_glob: Search only files whose name, or whose path below `path` if the pattern
            contains `/`, matches this pattern; empty for all.
        ignore_case: True to ignore case.
        before: The number of lines to return before each match.
        after: The number of lines to return after each match.
        multiline: True if the pattern may match across lines; `.` then also matches newlines.
        use_gitignore: True to leave out files that `.gitignore` files exclude.
        limit: Maximum number of matching lines.
    """

    pattern: str
    path: str = "."
    file_glob: str = ""
    ignore_case: bool = False
    before: int = 0
    after: int = 0
    multiline: bool = False
    use_gitignore: bool = True
    limit: int = MAX_MATCHES


@attrs.frozen
class GrepMatch:
    """A matching line.

    Attributes:
        file: The file's path, in the form of `FileInfo.path`.
        line: The number of the line, from 1.
        text: The line without its line break; truncated if it is very long. A match across lines
            is reported as one `GrepMatch` per line.
        before: The lines before the match, if the query asked for them.
        after: The lines after the match, if the query asked for them.
    """

    file: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@attrs.frozen
class GrepMatches:
    """The matching lines, sorted by file and line.

    Attributes:
        matches: The matches.
        truncated: True if there are more matches, or if the search reached its time limit.
        skipped: The number of files that are known not to have been searched because they are
            binary, too large or unreadable. There may be more: ripgrep does not report all of them.
    """

    matches: tuple[GrepMatch, ...]
    truncated: bool = False
    skipped: int = 0

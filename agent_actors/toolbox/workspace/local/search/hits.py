"""Matching lines: how search engines report them, and how they become a result.

A search engine reports hits: line numbers of files. The lines of the result are always taken from a
read through the walk. A file that was swapped during the search can therefore not add content from
outside the workspace to the result, even if the engine has read it.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from agent_actors.domain.workspace.files import GrepMatch, GrepQuery
from agent_actors.toolbox.workspace.local.failures import failure
from agent_actors.toolbox.workspace.local.patterns import (
    MAX_PATTERN,
    PathPatterns,
    invalid_pattern,
    parse_alternatives,
)
from agent_actors.toolbox.workspace.local.roots import Root

MAX_LINE: Final = 2_000
"""The maximum length of a line in a result, in characters."""
MAX_CONTEXT: Final = 100
"""The maximum number of lines before and after a match."""


@attrs.frozen
class Hit:
    """A matching line that a search engine has reported.

    Attributes:
        line: The number of the line, from 1.
        digest: The hash of its content, to recognize a change since; None if the content that was
            searched comes from a read through the walk.
    """

    line: int
    digest: int | None = None


@attrs.frozen(eq=False)
class Target:
    """The place that a search covers.

    Attributes:
        root: The root that contains it.
        names: The path of the file or directory below the root.
        shown: The path in the form of `FileInfo.path`.
        content: The content, if the place is a file.
        directory: A descriptor of the directory; None if the place is a file.
        ignores_above: True if `.gitignore` files above the directory have rules.
    """

    root: Root
    names: tuple[str, ...]
    shown: str
    content: bytes | None = None
    directory: int | None = None
    ignores_above: bool = False


def check_query(query: GrepQuery) -> None:
    """Check the values of a query.

    Raises:
        WorkspaceError: A value is not valid (reason `invalid`).
    """
    if "\0" in query.pattern or len(query.pattern) > MAX_PATTERN:
        raise invalid_pattern(
            query.pattern, f"it must have at most {MAX_PATTERN} characters, no NUL"
        )
    if not query.multiline and has_line_break(query.pattern):
        raise invalid_pattern(query.pattern, "it contains a line break; set `multiline`")
    if (
        query.limit < 0
        or not 0 <= query.before <= MAX_CONTEXT
        or not 0 <= query.after <= MAX_CONTEXT
    ):
        raise failure(
            query.path,
            "invalid",
            f"`limit` must not be negative, `before` and `after` must be 0 to {MAX_CONTEXT}",
        )
    file_patterns(query)


def has_line_break(pattern: str) -> bool:
    r"""Return whether a regular expression contains a line break, literally or as `\n`."""
    escaped = False
    for character in pattern:
        if character == "\n" or (escaped and character == "n"):
            return True
        escaped = character == "\\" and not escaped
    return False


def file_patterns(query: GrepQuery) -> PathPatterns | None:
    """Return the pattern of the files to search; None for all files.

    A pattern without `/` matches names in every directory.
    """
    if not query.file_glob:
        return None
    text = query.file_glob.removeprefix("./")
    return parse_alternatives(text.lstrip("/") if "/" in text else f"**/{text}")


def is_binary(data: bytes) -> bool:
    """Return whether a file is binary: it contains a NUL byte."""
    return b"\0" in data


def matches_of(
    shown: str, data: bytes, hits: Iterable[Hit], query: GrepQuery
) -> Iterator[GrepMatch]:
    """Yield the matching lines of one file. Lines that have changed since the search are left out.

    Args:
        shown: The path of the file in the form of `FileInfo.path`.
        data: The content, from a read through the walk.
        hits: The hits, sorted by line.
        query: The query.
    """
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    for hit in hits:
        at = hit.line - 1
        if at >= len(lines) or (hit.digest is not None and hash(lines[at]) != hit.digest):
            continue
        yield GrepMatch(
            shown,
            hit.line,
            _text(lines[at]),
            tuple(_text(line) for line in lines[max(0, at - query.before) : at]),
            tuple(_text(line) for line in lines[at + 1 : at + 1 + query.after]),
        )


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r")[: 4 * MAX_LINE].decode("utf-8", "replace")[:MAX_LINE]

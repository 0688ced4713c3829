"""Files of a project as they are read, and reports about them."""

from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.domain.json import JsonValue

SettingSource: TypeAlias = Literal["user", "project", "local"]
"""A group of files that an agent may read without naming them."""

SETTING_SOURCES: Final[tuple[SettingSource, ...]] = ("user", "project", "local")


@attrs.frozen
class FileText:
    """The text of a file, or its beginning.

    Attributes:
        path: The absolute path that was read.
        text: The text, in which invalid UTF-8 is replaced.
        size: The size of the complete file, in bytes.
        complete: True if `text` is the complete file.
        identity: The device and the inode, by which two names of one file are recognized.
    """

    path: Path
    text: str
    size: int
    complete: bool
    identity: tuple[int, int] = (0, 0)


@attrs.frozen
class FoundFiles:
    """The files that a search found.

    Attributes:
        paths: The absolute paths, in the order of the search.
        problems: The reasons why the search is not complete.
    """

    paths: tuple[Path, ...]
    problems: "tuple[ProjectProblem, ...]" = ()


@attrs.frozen
class ProjectProblem:
    """A problem with a file of a project, which is skipped unless the problem is a warning.

    Attributes:
        path: The path of the file, on one line.
        message: The problem, and the remedy.
        line: The number of the line, from 1; 0 if the problem concerns the complete file.
        warning: True if the file is used nevertheless.
    """

    path: str
    message: str
    line: int = 0
    warning: bool = False

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}"


@attrs.frozen
class ProjectReport:
    """The files of a project that a run read.

    Attributes:
        sources: The groups of files that the agent's `setting_sources` enable.
        files: The paths of the files whose text was used, in the order in which they were read.
        problems: The problems with files.
    """

    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    problems: tuple[ProjectProblem, ...] = ()


NO_PROJECT: Final = ProjectReport()
"""The report of a run that read no file of a project."""


@attrs.frozen
class HandlerResult:
    """The result of a skill or a command that is defined in code.

    Attributes:
        name: The name of the skill or the command.
        output: The returned value; None if the handler raised an exception.
        error: The exception as text; empty if the handler raised none.
    """

    name: str
    output: JsonValue = None
    error: str = ""

"""The operations behind the built-in tools, and their limits.

Both vocabularies of tools call the same operations. Tools that share an `Operations` object also
share the knowledge about the files that each session has read.
"""

from typing import Final

import attrs

from agent_actors.domain.workspace.files import MAX_MATCHES
from agent_actors.errors import ConfigError
from agent_actors.toolbox.files.changing import FileChanger
from agent_actors.toolbox.files.patching import PatchApplier
from agent_actors.toolbox.files.reading import MAX_FILE_BYTES, FileReader
from agent_actors.toolbox.files.session_files import SessionFiles
from agent_actors.toolbox.search import FileSearch
from agent_actors.toolbox.shell import DEFAULT_OUTPUT_BYTES, DEFAULT_TIMEOUT, Shell

_GRACE: Final = 30.0
"""Seconds in which a command that exceeded its timeout must have ended."""


@attrs.frozen(kw_only=True)
class ToolLimits:
    """Limits of the built-in tools. A call can ask for less, but not for more.

    Attributes:
        timeout_s: Maximum duration of a command in seconds; background commands have none.
        max_output_bytes: Maximum size of each output stream of a command, in UTF-8 bytes.
        max_file_bytes: Maximum size of a file that is read or edited, in bytes.
        max_matches: Maximum number of files or matching lines that a search returns.
    """

    timeout_s: float = DEFAULT_TIMEOUT
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES
    max_file_bytes: int = MAX_FILE_BYTES
    max_matches: int = MAX_MATCHES

    def __attrs_post_init__(self) -> None:
        limits = (self.timeout_s, self.max_output_bytes, self.max_file_bytes, self.max_matches)
        names = ("timeout_s", "max_output_bytes", "max_file_bytes", "max_matches")
        for name, limit in zip(names, limits, strict=True):
            if not limit > 0:
                raise ConfigError(f"ToolLimits: {name} must be positive; got {limit!r}")


@attrs.frozen
class Operations:
    """The operations behind a set of tools.

    Attributes:
        reader: Reads files.
        changer: Writes and edits files.
        patches: Applies patches.
        search: Lists, finds and searches files.
        shell: Runs commands.
    """

    reader: FileReader
    changer: FileChanger
    patches: PatchApplier
    search: FileSearch
    shell: Shell

    @classmethod
    def within(cls, limits: ToolLimits) -> "Operations":
        """Create operations with limits. No session has read a file yet."""
        files = SessionFiles()
        changer = FileChanger(files, limits.max_file_bytes)
        return cls(
            FileReader(files, limits.max_file_bytes),
            changer,
            PatchApplier(changer),
            FileSearch(max_matches=limits.max_matches),
            Shell(limits.timeout_s, limits.max_output_bytes),
        )

    @property
    def command_deadline(self) -> float:
        """Timeout for a call of a tool that runs a command, in seconds."""
        return self.shell.timeout_s + _GRACE

"""The names of the built-in tools, which options check before the tools themselves are created.

The tools are defined in `toolbox/`, which is above this package. A test compares the names.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

_CODE: Final = """
    Read Write Edit ApplyPatch Glob Grep Bash BashOutput KillBash TodoWrite WebFetch WebSearch
"""
_FILESYSTEM: Final = """
    ls read_file write_file edit_file glob grep execute bash_output kill_bash write_todos
"""
VOCABULARIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"code": tuple(_CODE.split()), "filesystem": tuple(_FILESYSTEM.split())}
)
"""The names of the tools of each vocabulary."""

BUILTIN_NAMES: Final[tuple[str, ...]] = tuple(
    name for tools in VOCABULARIES.values() for name in tools
)

_NEEDS_NO_WORKSPACE: Final = frozenset({"WebFetch", "WebSearch", "TodoWrite", "write_todos"})


def expanded_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of tools, with the name of a vocabulary replaced by those of its tools."""
    return tuple(dict.fromkeys(tool for name in names for tool in VOCABULARIES.get(name, (name,))))


def tools_in_workspace(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the tools, among these, that work only in a workspace."""
    return tuple(name for name in expanded_names(names) if name not in _NEEDS_NO_WORKSPACE)

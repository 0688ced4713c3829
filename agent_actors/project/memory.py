"""Memory files: texts of a project that become a part of the system prompt."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

MEMORY_FILES: Final = ("CLAUDE.md", "AGENTS.md")
LOCAL_MEMORY_FILE: Final = "CLAUDE.local.md"
SEPARATOR: Final = "\n\n---\n\n"
MAX_MEMORY_BYTES: Final = 65_536
"""Maximum size of a memory file, in bytes."""
MAX_MEMORY_TOTAL: Final = 262_144
"""Maximum number of characters of all memory files together."""
MAX_IMPORTS: Final = 50
"""Maximum number of files that the memory files of a run may import."""
MAX_IMPORT_DEPTH: Final = 5

_CODE: Final = re.compile(r"`[^`\n]*`")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_IMPORT: Final = re.compile(r"(?:^|(?<=\s))@([\w.~/][\w.~/\-]*)")
_TAG: Final = re.compile(r"<(?=/?agent_memory)", re.IGNORECASE)


def imports_of(text: str) -> tuple[str, ...]:
    """Return the paths that a memory file imports with `@path`, each once.

    A path contains a slash or a dot, so that mentions such as `@alice` are not imports. Code is not
    searched.
    """
    found: dict[str, None] = {}
    for line in _prose(text):
        for match in _IMPORT.finditer(_CODE.sub("", line)):
            path = match[1].rstrip(".")
            if "/" in path or "." in path:
                found[path] = None
    return tuple(found)


def _prose(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = mark[1] if not fence else ("" if mark[1] == fence else fence)
        elif not fence:
            yield line


def joined_memory(texts: Iterable[str]) -> str:
    """Return the texts of memory files as one text."""
    return SEPARATOR.join(text.strip() for text in texts if text.strip())


def memory_block(texts: Sequence[str], edit_tool: str) -> str:
    """Return the part of the system prompt for memory files; empty without texts.

    Args:
        texts: The texts of the files, the nearest file last.
        edit_tool: The name of the tool with which the agent edits files.
    """
    joined = joined_memory(texts)
    if not joined:
        return ""
    inside = _TAG.sub("&lt;", joined)  # a file must not end the block
    return (
        f"<agent_memory>\n{inside}\n</agent_memory>\n\n"
        "## Memory guidelines\n\n"
        "- This memory persists across conversations.\n"
        f"- You can update it with the {edit_tool} tool on the AGENTS.md file.\n"
        "- Use it for context, decisions and patterns that matter.\n"
        "- Keep entries concise and organized."
    )

"""Parses Google-style docstrings, from which the descriptions of tools are taken.

The description is the docstring without its sections. `Args:` and `Attributes:` contain the
descriptions of parameters and fields.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

# The section headings that the Google style guide and common parsers know. A heading is one of
# these words alone on an unindented line, followed by a colon.
_SECTIONS: Final = frozenset(
    {
        "args",
        "arguments",
        "attributes",
        "cancellation",
        "example",
        "examples",
        "keyword args",
        "keyword arguments",
        "note",
        "notes",
        "other parameters",
        "parameters",
        "raises",
        "references",
        "return",
        "returns",
        "see also",
        "todo",
        "warning",
        "warnings",
        "warns",
        "yield",
        "yields",
    }
)
_DESCRIBING: Final = frozenset(
    {"args", "arguments", "attributes", "keyword args", "keyword arguments", "parameters"}
)
# `name: text`, `name (type): text`, `*name: text`.
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


@attrs.frozen
class Docstring:
    """The parts of a docstring.

    Attributes:
        description: The text before and between the sections; the lines of each paragraph are
            joined.
        parameters: The descriptions of parameters or fields, by name.
    """

    description: str
    parameters: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Return the parts of a docstring; both are empty if the docstring is None or empty."""
    description: list[str] = []
    entries: list[str] = []
    current: list[str] | None = description
    for line in inspect.cleandoc(text or "").splitlines():
        heading = _heading(line)
        if heading:
            current = entries if heading in _DESCRIBING else None
        elif current is entries and line and not line[0].isspace():
            current = description  # unindented text after a section belongs to the description
            current.extend(("", line))
        elif current is not None:
            current.append(line)
    return Docstring(_paragraphs(description), _entries(entries))


def _heading(line: str) -> str:
    name = line.rstrip().removesuffix(":").lower()
    return name if line.rstrip().endswith(":") and name in _SECTIONS else ""


def _paragraphs(lines: Sequence[str]) -> str:
    """Join the lines of each paragraph; lists and indented text keep their line breaks."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip())
    return "\n\n".join(_joined(paragraph) for paragraph in paragraphs)


def _joined(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if any(line[:1] in ("-", "*", " ", "\t") for line in lines[1:]):
        return paragraph
    return " ".join(line.strip() for line in lines)


def _entries(lines: Sequence[str]) -> Mapping[str, str]:
    """Return entries by name; lines that are indented more deeply continue an entry."""
    described: dict[str, str] = {}
    filled = [line for line in lines if line.strip()]
    indent = min((_indent(line) for line in filled), default=0)
    name = ""
    for line in filled:
        entry = _ENTRY.fullmatch(line.strip()) if _indent(line) == indent else None
        if entry is not None:
            name = entry[1]
            described[name] = entry[2]
        elif name:
            described[name] = f"{described[name]} {line.strip()}".strip()
    return described


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

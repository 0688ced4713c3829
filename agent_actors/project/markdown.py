"""The parts of Markdown files that this package uses: frontmatter, headings, paragraphs and lists.

The files are untrusted, so texts that are shown on one line lose their control characters, and
every step takes a time that is proportional to the size of the text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

import attrs
import yaml

from agent_actors.codec.yaml_text import load_yaml

MAX_FRONTMATTER: Final = 4_096
"""Maximum number of characters of frontmatter. A longer one is not read."""
MAX_FRONTMATTER_TOTAL: Final = 524_288
"""Maximum number of characters of frontmatter in all files of a run; it takes about 1 s of CPU."""
_MAX_DEPTH: Final = 10

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\](?:[ \t]+|$))?(.*)$")
_EMPTY_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]*(?:\[[ xX]\])?[ \t]*$")
_FIRST_MARK: Final = re.compile(r"---[ \t]*\r?\n")
_LAST_MARK: Final = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)


@attrs.frozen
class Frontmatter:
    """A Markdown file, split into its frontmatter and its body.

    Attributes:
        fields: The fields of the frontmatter; None if the file has none.
        body: The text after the frontmatter.
        error: The reason why the frontmatter cannot be read; empty if it can.
        line: The number of the line with the error, from 1; 0 if it is not known.
    """

    fields: Mapping[str, object] | None
    body: str
    error: str = ""
    line: int = 0


def split_frontmatter(text: str) -> Frontmatter:
    """Split a Markdown file into the fields of its frontmatter and its body."""
    text = text.removeprefix("\ufeff")
    opened = _FIRST_MARK.match(text)
    if opened is None:
        return Frontmatter(None, text)
    closed = _LAST_MARK.search(text, opened.end(), opened.end() + MAX_FRONTMATTER)
    if closed is None:
        reason = f"the frontmatter has no closing line '---' within {MAX_FRONTMATTER} characters"
        return Frontmatter(None, text, reason, 1)
    body = text[closed.end() :].lstrip("\r\n")
    try:
        found = load_yaml(text[opened.end() : closed.start()], _MAX_DEPTH)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"the frontmatter is not valid YAML: {one_line(str(error.problem), 200)}"
        return Frontmatter(None, body, reason, 0 if mark is None else mark.line + 2)
    except (ValueError, yaml.YAMLError) as error:
        return Frontmatter(
            None, body, f"the frontmatter is not valid YAML: {one_line(str(error), 200)}"
        )
    if found is None:
        found = {}
    if not isinstance(found, dict):
        return Frontmatter(None, body, "the frontmatter must be a table such as 'name: x'", 2)
    fields = cast("dict[object, object]", found)
    return Frontmatter({str(key): value for key, value in fields.items()}, body)


def frontmatter_length(text: str) -> int:
    """Return the number of characters that the frontmatter has at most, without parsing it."""
    if not text.removeprefix("\ufeff").startswith("---"):
        return 0
    end = text.find("\n---", 3, MAX_FRONTMATTER)
    return MAX_FRONTMATTER if end < 0 else end


def one_line(text: str, limit: int) -> str:
    """Return a text on one line, without control and format characters, and not above a length."""
    # A character takes at most one place, so a few more than the limit are enough.
    words = "".join(c if c.isprintable() else " " for c in text[: 4 * limit]).split()
    joined = " ".join(words)
    return joined if len(joined) <= limit else f"{joined[: limit - 1]}…"


def is_one_line(text: str) -> bool:
    """Return whether a text has no control or format characters, so that it can be shown as is."""
    return text.isprintable()


def first_heading(body: str) -> str:
    """Return the text of the first heading; empty if the text has no heading."""
    return next((heading for _, heading, _ in _lines(body) if heading), "")


def first_paragraph(body: str, limit: int) -> str:
    """Return the first paragraph on one line; headings and fenced code are not paragraphs."""
    lines: list[str] = []
    for line, heading, fenced in _lines(body):
        if heading is None and not fenced and line.strip():
            lines.append(line.strip())
        elif lines:
            break
    return one_line(" ".join(lines), limit)


def list_items(body: str, section: str) -> tuple[str, ...]:
    """Return the list items of the section with this heading, without blank items.

    The section ends at the next heading. Case does not matter in the heading.
    """
    items: list[str] = []
    inside = False
    for line, heading, fenced in _lines(body):
        if heading is not None:
            if inside:
                break
            inside = heading.casefold() == section.casefold()
        elif inside and not fenced and not _EMPTY_ITEM.match(line):
            item = _ITEM.match(line)
            if item is not None:
                items.append(item[1].strip())
    return tuple(items)


def _lines(body: str) -> Iterator[tuple[str, str | None, bool]]:
    """Yield each line with the text of its heading, or None, and whether it is fenced code."""
    fence = ""
    for line in map(str.rstrip, body.split("\n")):
        mark = _FENCE.match(line)
        if fence or mark is not None:
            yield line, None, True
            if not fence and mark is not None:
                fence = mark[1]
            elif mark is not None and mark[1] == fence:
                fence = ""
            continue
        found = _HEADING.match(line)
        yield line, None if found is None else (found[2] or "").rstrip(" #").strip(), False

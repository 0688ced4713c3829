"""The pages of the documentation, and what stands in them as code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "docs/examples"
# The pages of the API are made when the site is.
PAGES: Final = (
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "api"),
)
_BLOCK: Final = re.compile(
    r"(?:^<!-- ([^\n]*) -->\n)?^( *)```([a-z]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE
)


@attrs.frozen
class Block:
    """A piece of code in a page.

    Attributes:
        page: Its page, from the root.
        line: Where it begins.
        marked: What the comment above it says; empty if there is none.
        language: As the page says it.
        text: The code.
    """

    page: str
    line: int
    marked: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> Path | None:
        """The file that it says that it is a piece of."""
        name = self.marked.partition(":")[0].removeprefix("printed by ")
        return ROOT / name if name.startswith("docs/examples/") else None


def blocks(*languages: str) -> list[Block]:
    """What stands in all pages in one of these languages; in whatever one, if none is named."""
    return [
        one
        for page in PAGES
        for one in _blocks(page)
        if one.language in (languages or {one.language})
    ]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(name, line, found[1] or "", found[3], found[4])

"""The pages of the documentation, and the code blocks in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "docs/examples"
# The API pages are generated when the site is built, so they are left out.
PAGES: Final = (
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "api"),
)
_BLOCK: Final = re.compile(
    r"(?:^<!-- ([^\n]*) -->\n)?^( *)```([a-z]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE
)


@attrs.frozen
class Block:
    """A code block in a page.

    Attributes:
        page: The path of its page, relative to the root.
        line: The line on which it begins.
        marked: The text of the comment above it; empty if there is none.
        language: The language that the page gives for it.
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
        """The file that the block is an excerpt of, according to its comment."""
        name = self.marked.partition(":")[0].removeprefix("printed by ")
        return ROOT / name if name.startswith("docs/examples/") else None


def blocks(*languages: str) -> list[Block]:
    """Return the code blocks of all pages in these languages; in all languages by default."""
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

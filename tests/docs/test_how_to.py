"""What a page shows of a program is in the program."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The pages of the API are made when the site is.
PAGES = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "api"]
SHOWN = re.compile(r"<!-- (docs/examples/\w+\.py) -->\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_snippet_is_a_piece_of_its_file(page: Path) -> None:
    for name, snippet in SHOWN.findall(page.read_text(encoding="utf-8")):
        source = (ROOT / name).read_text(encoding="utf-8")
        depths = [textwrap.indent(snippet, " " * depth) for depth in (0, 4, 8)]
        assert any(piece in source for piece in depths), f"{page.name} shows other than {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_links_to_files_that_are_there(page: Path) -> None:
    # In code, a type that is called looks like a link.
    prose = re.sub(r"```.*?```|`[^`\n]*`", "`", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", prose):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"

"""The targets of all links in the pages exist."""

import re
from pathlib import Path

import pytest

from tests.docs.page_helpers import PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_links_exist(page: Path) -> None:
    # In code, a call of a subscripted type looks like a link.
    prose = re.sub(r"```.*?```|`[^`\n]*`", "`", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", prose):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"

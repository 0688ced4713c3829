"""Every test that a page names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("explanation", "coming-from", "how-to", "tutorial")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).glob("*.md"))
NAMED = re.compile(r"`(tests/[^`:\s]+)(?:::(\w+))?`")


def names_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_named_on_pages_exist(page: Path) -> None:
    for path, name in NAMED.findall(page.read_text(encoding="utf-8")):
        assert list(ROOT.glob(path.rstrip("/"))), f"{page.name} names {path}"
        assert not name or name in names_of(ROOT / path), f"{page.name} names {path}::{name}"


def test_compatibility_rows_name_their_tests() -> None:
    text = (ROOT / "docs/explanation/open-agent-sdk.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 16
    for row in rows:
        assert NAMED.search(row.split(" | ")[2]), row

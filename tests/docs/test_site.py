"""Tests for scripts/site.py: the site has all pages, and the API pages have all public names."""

import ast
import importlib
from pathlib import Path
from typing import cast

import pytest
import yaml

from scripts import site

ROOT = Path(__file__).parents[2]
CONFIG = cast("dict[str, object]", yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8")))
NAV = cast("site.Nav", CONFIG["nav"])


def test_every_page_is_in_nav_once() -> None:
    pages = site.pages_of(site.filled(NAV, frozenset(site.pages_of(NAV)), site.DOCS))
    found = [page.relative_to(site.DOCS).as_posix() for page in site.DOCS.rglob("*.md")]
    assert sorted(pages) == sorted(found)


def test_pattern_adds_unnamed_pages(tmp_path: Path) -> None:
    for name in ("a.md", "how/x.md", "how/first.md", "how/b.md", "api/1.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    nav: site.Nav = [
        "a.md",
        {"How": ["how/first.md", "how/*"]},
        {"Ref": [{"API": "api/*"}, {"A": "a.md"}]},
    ]
    assert site.filled(nav, frozenset({"a.md", "how/first.md"}), tmp_path) == [
        "a.md",
        {"How": ["how/first.md", "how/b.md", "how/x.md"]},
        {"Ref": [{"API": ["api/1.md"]}, {"A": "a.md"}]},
    ]


@pytest.mark.parametrize("page", site.PAGES, ids=lambda page: page.slug)
def test_api_page_lists_its_names(page: site.ApiPage) -> None:
    names = list(site.names_of(page))
    assert names
    for dotted in names:
        module, _, name = dotted.rpartition(".")
        assert hasattr(importlib.import_module(module), name), dotted
    text = site.api_page(page)
    assert text.startswith(f"# {page.title}\n\n{page.about}\n")
    assert [line for line in text.splitlines() if line.startswith(":::")] == [
        f"::: {name}" for name in names
    ]


def test_every_public_name_has_one_entry() -> None:
    entries = [name for page in site.PAGES for name in site.names_of(page)]
    assert len(entries) == len(set(entries))
    listed = [name.rpartition(".")[2] for name in entries]
    root = site.public_names(ast.parse(site.source_of("agent_actors").read_text("utf-8")))
    elsewhere = [name for name in root if f"agent_actors.{name}" not in entries]
    assert [name for name in elsewhere if listed.count(name) != 1] == []
    index = site.index_page()
    assert all(f"- [`{name}`][agent_actors." in index for name in root)
    assert {"open_store", "SqliteStore", "SessionStore", "distorted_turns"} <= set(listed)


def test_api_pages_are_rewritten_only_on_change(tmp_path: Path) -> None:
    site.write_api(tmp_path)
    pages = sorted(tmp_path.iterdir())
    assert len(pages) == len(site.PAGES) + 1
    first, second = pages[:2]
    first.write_text("old", "utf-8")
    (tmp_path / "99-gone.md").touch()
    before = second.stat().st_mtime_ns
    site.write_api(tmp_path)
    assert sorted(tmp_path.iterdir()) == pages
    assert first.read_text("utf-8").startswith("# Names in agent_actors\n")
    assert second.stat().st_mtime_ns == before


def test_defaults_show_values_of_constants() -> None:
    assert site.constants()["DRAIN"] == "30.0"
    signature = '<span class="o">=</span> <span class="n">DRAIN</span>'
    assert site.on_page_content(signature) == '<span class="o">=</span> 30.0'
    listed = 'default:\n <code><autoref identifier="a.DRAIN">DRAIN</autoref></code>'
    assert site.on_page_content(listed) == "default:\n <code>30.0</code>"
    assert site.on_page_content("<code>DRAIN</code> LATER") == "<code>DRAIN</code> LATER"


def test_fields_move_to_start_of_entry() -> None:
    entry = '<h2 id="a.B" class="doc doc-heading">B</h2><div class="doc doc-contents first">'
    fields = (
        '<div class="highlight"><pre><span></span><code><span class="k">class</span>'
        '<span class="w"> </span><span class="nc">B</span></code></pre></div>'
    )
    assert site.on_page_content(f"{entry}text</div>{fields}") == f"{entry}{fields}text</div>"
    assert site.on_page_content(fields) == fields


def test_snippet_title_is_its_file_name() -> None:
    page = "Text\n\n<!-- docs/examples/a.py -->\n```python\na\n```\n\n```python\nb\n```\n"
    assert site.on_page_markdown(page, page=None) == page.replace(
        "<!-- docs/examples/a.py -->\n```python", '```python title="docs/examples/a.py"'
    )
    excerpt = "<!-- docs/examples/a.py: excerpt -->\n```python\n"
    assert site.on_page_markdown(excerpt) == '```python title="docs/examples/a.py"\n'


def test_nothing_of_the_site_comes_from_elsewhere() -> None:
    theme = cast("dict[str, object]", CONFIG["theme"])
    assert theme["font"] is False
    assert CONFIG["strict"] is True
    assert "extra_javascript" not in CONFIG
    extra = cast("dict[str, list[str]]", CONFIG["extra"])
    (shim,) = extra["polyfills"]
    # With this file name, the offline plugin does not download its own shim.
    assert "iframe-worker" in shim
    assert "http" not in (site.DOCS / shim).read_text("utf-8")
    assert {"offline": {}} in cast("list[object]", CONFIG["plugins"])
    (style,) = cast("list[str]", CONFIG["extra_css"])
    assert "url(" not in (site.DOCS / style).read_text("utf-8")


def test_attrs_classes_show_types_and_defaults(tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    page.write_text(
        "import attrs\n"
        "@attrs.frozen(kw_only=True)\n"
        "class A:\n"
        "    kind: ClassVar[str] = 'a'\n"
        "    one: int\n"
        "    two: str | None = None\n"
        "    three: list[int] = attrs.field(factory=list[int], repr=False)\n"
        "    four: Path = attrs.field(default=None, converter=Path)\n"
        "    five: int = attrs.field(repr=False)\n"
        "    _six: int = 6\n"
        "    def seven(self) -> int: ...\n"
        "class B:\n"
        "    one: int\n",
        "utf-8",
    )
    assert site.fields_of("A", page) == (
        "    one: int",
        "    two: str | None = None",
        "    three: list[int] = list[int]()",
        "    four: Path = None",
        "    five: int",
    )
    assert site.fields_of("B", page) == site.fields_of("C", page) == ()


def test_agent_options_show_their_defaults() -> None:
    pages = {page.slug: site.api_page(page) for page in site.PAGES}
    assert "\n    max_iterations: int = 25\n" in pages["options"]
    assert "\n    tool_timeout: float = 300.0\n" in pages["options"]
    assert "class ToolUse:\n" in pages["events"]

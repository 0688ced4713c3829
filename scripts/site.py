"""A hook of mkdocs that completes the site's navigation and generates the API pages.

mkdocs loads this file (see `mkdocs.yml`). The file imports neither mkdocs nor the package: it reads
the public names from the source files. In the `nav`, `folder/*` means all pages of a folder that
are not listed elsewhere, ordered by name, so that a new page needs no entry. A snippet gets the
name of its file, from the comment above it, as its title. The API pages are written to
`docs/reference/api/`, which git ignores.
"""

import ast
import re
from collections.abc import Iterator, MutableMapping
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
API: Final = "reference/api"

MODULES: Final = (
    "agent_actors",
    "agent_actors.events",
    "agent_actors.model",
    "agent_actors.hooks",
    "agent_actors.permissions",
    "agent_actors.context",
    "agent_actors.media",
    "agent_actors.errors",
    "agent_actors.testing",
)
"""The public modules. Each has a page."""

_OF_A_FILE: Final = re.compile(
    r"^<!-- (docs/examples/\w+\.py)(?:: excerpt)? -->\n( *```python)$", re.MULTILINE
)

Nav: TypeAlias = "str | list[Nav] | dict[str, Nav]"
"""A page, a pattern, a list of these, or sections by title."""


def on_config(config: MutableMapping[str, Nav]) -> None:
    """Write the API pages and complete the nav; called by mkdocs."""
    write_api(DOCS / API)
    nav = config["nav"]
    config["nav"] = filled(nav, frozenset(pages_of(nav)), DOCS)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page with the file name of each snippet as its title; called by mkdocs."""
    return _OF_A_FILE.sub(r'\2 title="\1"', markdown)


def filled(nav: Nav, named: frozenset[str], docs: Path) -> Nav:
    """Return the nav with each `folder/*` replaced by the pages of that folder.

    Args:
        nav: The nav of `mkdocs.yml`, or a part of it.
        named: The pages that the complete nav lists by name.
        docs: The folder of all pages.
    """
    match nav:
        case str():
            if not nav.endswith("/*"):
                return nav
            return [page for page in _pages(docs, nav) if page not in named]
        case list():
            entries: list[Nav] = []
            for entry in nav:
                found = filled(entry, named, docs)
                entries += found if isinstance(found, list) else [found]
            return entries
        case dict():
            return {title: filled(part, named, docs) for title, part in nav.items()}


def pages_of(nav: Nav) -> Iterator[str]:
    """Yield the pages and patterns in a nav."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from pages_of(part)


def write_api(folder: Path) -> None:
    """Write a page for each public module. Unchanged files are not touched, for `mkdocs serve`."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{number}-{name}.md": api_page(name) for number, name in enumerate(MODULES, 1)}
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def api_page(module: str) -> str:
    """Return the page of a module: its summary, and a placeholder for each public name."""
    source = source_of(module).read_text(encoding="utf-8")
    tree = ast.parse(source)
    about = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    origins = {name.name: node.module for node in _imports(tree) for name in node.names}
    parts = [f"# {module}", about]
    for name in public_names(tree):
        parts.append(f"::: {module}.{name}")
        fields = fields_of(name, source_of(origins.get(name) or module))
        if fields:
            parts.append("```python\n" + "\n".join([f"class {name}:", *fields]) + "\n```")
    return "\n\n".join(parts) + "\n"


def public_names(tree: ast.Module) -> list[str]:
    """Return the names that a public module exports as `X as X`, otherwise those it defines."""
    exported = [
        name.name for node in _imports(tree) for name in node.names if name.asname == name.name
    ]
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    names = exported or defined
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


@cache
def fields_of(name: str, path: Path) -> tuple[str, ...]:
    """Return the fields of an attrs class as lines of its body; empty for anything else.

    attrs creates the signature at import time, so the source contains none to show.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            made = any("attrs." in ast.unparse(one) for one in node.decorator_list)
            return tuple(_fields(node)) if made else ()
    return ()


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for one in node.body:
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        kind = ast.unparse(one.annotation)
        if not one.target.id.startswith("_") and not kind.startswith("ClassVar"):
            value = _default(one.value)
            yield f"    {one.target.id}: {kind}" + (f" = {value}" if value else "")


def _default(value: ast.expr | None) -> str:
    match value:
        case None:
            return ""
        case ast.Call(func=ast.Attribute(value=ast.Name(id="attrs"), attr="field"), keywords=given):
            said = {one.arg: ast.unparse(one.value) for one in given}
            return f"{said['factory']}()" if "factory" in said else said.get("default", "")
        case _:
            return ast.unparse(value)


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    return (node for node in tree.body if isinstance(node, ast.ImportFrom))


def source_of(module: str) -> Path:
    """Return the source file of a module of this project."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _pages(docs: Path, pattern: str) -> Iterator[str]:
    for page in sorted((docs / pattern.removesuffix("/*")).glob("*.md")):
        yield page.relative_to(docs).as_posix()

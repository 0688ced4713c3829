"""Prepare the documentation for mkdocs: the navigation, titles of snippets, and the API pages.

mkdocs loads this file as a hook (`mkdocs.yml`). It imports neither mkdocs nor the package; the
public names are read from the sources. In the `nav`, `folder/*` means the pages of a folder that
the `nav` does not name, in the order of their file names, so that a new page needs no entry. A
snippet gets the name of its file as its title. The API pages are written to `docs/reference/api/`,
which git ignores.
"""

import ast
import html
import re
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
API: Final = "reference/api"
PACKAGE: Final = "agent_actors"


class ApiPage(NamedTuple):
    """A page of the API reference.

    Attributes:
        slug: The file name without its extension.
        title: The heading.
        about: A paragraph below the heading.
        modules: The modules whose public names the page lists, all of them.
        names: Further public names with their modules.
    """

    slug: str
    title: str
    about: str
    modules: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def _of_root(*names: str) -> tuple[str, ...]:
    return tuple(f"{PACKAGE}.{name}" for name in names)


PAGES: Final = (
    ApiPage(
        "runtime",
        "Runtime",
        "Open a runtime, start runs, and read their results.",
        names=_of_root(
            "open_runtime",
            "Runtime",
            "RunStream",
            "Prompt",
            "RunResult",
            "Partial",
            "SubagentResult",
            "SessionStats",
            "TokenStats",
            "ToolCallResult",
            "RunInfo",
            "StopReason",
            "CancelReason",
            "Subscription",
            "SubscriptionOptions",
            "tune_gc",
        ),
    ),
    ApiPage(
        "options",
        "Options",
        "Define an agent.",
        names=_of_root(
            "AgentOptions",
            "AgentContext",
            "AgentDefinition",
            "AgentRegistry",
            "Skill",
            "Command",
            "Checkpoints",
            "Compaction",
            "OutputSpec",
            "UsageLimits",
            "Prices",
        ),
    ),
    ApiPage(
        "tools",
        "Tools",
        "Define the tools that a model can call.",
        names=_of_root(
            "tool",
            "Tool",
            "ToolContext",
            "ToolOutput",
            "ask_user_question",
            "in_current_run",
        ),
    ),
    ApiPage(
        "client",
        "Client and query",
        "Ask one question, or hold a conversation.",
        names=_of_root(
            "query",
            "Query",
            "run",
            "run_sync",
            "Client",
            "create_client",
            "format_messages",
            "ClientMessages",
            "QueryMessage",
            "PartialOutput",
            "StreamBlock",
            "FaceBlock",
            "AnswerRestarted",
        ),
    ),
    ApiPage(
        "messages",
        "Messages and blocks",
        "The content of prompts, responses and histories.",
        ("agent_actors.media",),
        _of_root(
            "Message",
            "Messages",
            "TextBlock",
            "ThinkingBlock",
            "ToolUseBlock",
            "ToolUseError",
            "ToolResultBlock",
            "ImageBlock",
            "FileBlock",
            "OpaqueBlock",
        ),
    ),
    ApiPage(
        "questions",
        "Questions",
        "Answer the questions that runs ask people.",
        names=_of_root("Question", "ApprovalQueue", "Whitelisted"),
    ),
    ApiPage("events", "Events", "The events of a run.", ("agent_actors.events",)),
    ApiPage("hooks", "Hooks", "Intercept the steps of a run.", ("agent_actors.hooks",)),
    ApiPage(
        "hooks-builtin",
        "Built-in hooks",
        "Hooks that are ready to use.",
        ("agent_actors.hooks.builtin",),
        ("agent_actors.audit.AuditFile",),
    ),
    ApiPage("logs", "Logging", "Add the ids of runs to log records.", ("agent_actors.logs",)),
    ApiPage(
        "permissions", "Permissions", "Decide which calls may run.", ("agent_actors.permissions",)
    ),
    ApiPage(
        "toolbox",
        "Built-in tools",
        "Tools for files, commands, the web and task lists.",
        ("agent_actors.toolbox.presets", "agent_actors.toolbox.web"),
        (
            "agent_actors.toolbox.operations.ToolLimits",
            "agent_actors.toolbox.web.client.WebLimits",
        ),
    ),
    ApiPage(
        "workspaces",
        "Workspaces",
        "The places where tools use files and run commands, and the types for a custom workspace.",
        (
            "agent_actors.toolbox.workspace",
            "agent_actors.domain.workspace.files",
            "agent_actors.domain.workspace.processes",
            "agent_actors.domain.workspace.report",
            "agent_actors.domain.workspace.background",
            "agent_actors.domain.workspace.trees",
            "agent_actors.toolbox.checkpoints.snapshots",
        ),
        (
            "agent_actors.abc.Workspace",
            "agent_actors.abc.WorkspaceProcess",
            "agent_actors.abc.TreeWorkspace",
            "agent_actors.abc.Checkpointer",
            "agent_actors.abc.BackgroundTasks",
        ),
    ),
    ApiPage(
        "sessions",
        "Sessions",
        "Read, change and administer sessions: `runtime.sessions` is a `SessionAPI`.",
        names=(
            "agent_actors.runtime.sessions.api.SessionAPI",
            *_of_root("SessionInfo", "SessionPage", "SessionSnapshot"),
        ),
    ),
    ApiPage(
        "stores",
        "Stores",
        "Keep sessions in memory or on disk, or implement a store.",
        (
            "agent_actors.stores.opening",
            "agent_actors.stores.memory",
            "agent_actors.stores.sqlite",
            "agent_actors.stores.jsonl",
        ),
        (
            "agent_actors.abc.SessionStore",
            "agent_actors.abc.InstantStore",
            "agent_actors.abc.SharedStore",
            "agent_actors.abc.RepairableStore",
            "agent_actors.abc.LogAppend",
            "agent_actors.abc.LogRepair",
        ),
    ),
    ApiPage(
        "model",
        "Models and providers",
        "The providers of this package, and the types for a custom provider.",
        ("agent_actors.model",),
        (
            "agent_actors.domain.provenance.Origin",
            "agent_actors.domain.provenance.marked",
            "agent_actors.transport.backends.httpx_transport.EngineTransport",
        ),
    ),
    ApiPage("context", "Context", "Estimate and shorten conversations.", ("agent_actors.context",)),
    ApiPage("errors", "Errors", "All exceptions of the package.", ("agent_actors.errors",)),
    ApiPage(
        "testing",
        "Testing",
        "Scripted models and endpoints, and checks for recorded responses.",
        ("agent_actors.testing",),
    ),
    ApiPage(
        "testing-strategies",
        "Testing: strategies",
        "Hypothesis strategies. They need the extra `testing`.",
        ("agent_actors.testing.strategies",),
    ),
    ApiPage(
        "testing-pytest",
        "Testing: pytest",
        "Fixtures for pytest. They need pytest, and `runtime` needs pytest-trio.",
        ("agent_actors.testing.pytest_plugin",),
    ),
)
"""The pages of the API reference, in their order. A name is listed once."""

# Their methods come from base classes that have no entry of their own.
_WITH_INHERITED: Final = frozenset({"SqliteStore", "JsonlStore"})

_OF_A_FILE: Final = re.compile(
    r"^<!-- (docs/examples/\w+\.py)(?:: excerpt)? -->\n( *```python)$", re.MULTILINE
)
_SIGNATURE_DEFAULT: Final = re.compile(
    r'(<span class="o">=</span>\s*)<span class="n">(_?[A-Z][A-Z_]+)</span>'
)
# mkdocstrings wraps a name that it may link to in a tag.
_LISTED_DEFAULT: Final = re.compile(
    r"(default:\s*<code>)(?:<\w+[^>]*>)?(_?[A-Z][A-Z_]+)(?:</\w+>)?(?=</code>)"
)
_FIELDS: Final = re.compile(
    r'<div class="highlight"><pre><span></span><code><span class="k">class</span>'
    r'<span class="w"> </span><span class="nc">(\w+)</span>.*?</div>\n?',
    re.DOTALL,
)
_CONTENTS: Final = '<div class="doc doc-contents first">'
_LONGEST_DEFAULT: Final = 60
"""Characters of a value that replaces the name of a constant."""

Nav: TypeAlias = "str | list[Nav] | dict[str, Nav]"
"""A page, a pattern, a list of them, or sections by their titles."""


def on_config(config: MutableMapping[str, Nav]) -> None:
    """Write the API pages and complete the nav; mkdocs calls this."""
    write_api(DOCS / API)
    nav = config["nav"]
    config["nav"] = filled(nav, frozenset(pages_of(nav)), DOCS)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Show the name of its file above each snippet; mkdocs calls this."""
    return _OF_A_FILE.sub(r'\2 title="\1"', markdown)


def on_page_content(content: str, **_: object) -> str:
    """Complete the entries of an API page; mkdocs calls this.

    Defaults show the values of constants in place of their names, and the fields of an attrs class
    move from the end of its entry to the beginning.
    """
    known = constants()

    def value(found: "re.Match[str]") -> str:
        return found[1] + html.escape(known.get(found[2], found[2]), quote=False)

    content = _LISTED_DEFAULT.sub(value, _SIGNATURE_DEFAULT.sub(value, content))
    for fields in list(_FIELDS.finditer(content)):
        heading = re.search(rf'<h2 id="[\w.]+\.{fields[1]}" class="doc', content)
        start = heading and content.find(_CONTENTS, heading.end())
        if start and start > 0:
            content = content.replace(fields[0], "")
            content = (
                content[: start + len(_CONTENTS)] + fields[0] + content[start + len(_CONTENTS) :]
            )
    return content


def filled(nav: Nav, named: frozenset[str], docs: Path) -> Nav:
    """Return the nav with each `folder/*` replaced by the pages of that folder.

    Args:
        nav: The nav of `mkdocs.yml`, or a part of it.
        named: The pages that the complete nav names.
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
    """Yield the pages and patterns of a nav."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from pages_of(part)


def write_api(folder: Path) -> None:
    """Write the API pages. Leave unchanged files alone, because `mkdocs serve` watches them."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{number:02}-{page.slug}.md": api_page(page) for number, page in enumerate(PAGES, 1)}
    pages["00-index.md"] = index_page()
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def index_page() -> str:
    """Return the page that lists the names of `agent_actors` itself, with links."""
    entries = [name for page in PAGES for name in names_of(page)]
    where = {name.rpartition(".")[2]: name for name in entries}
    names = public_names(_tree(PACKAGE))
    parts = [
        f"# Names in {PACKAGE}",
        "Import these names from the package. The other pages list the names of its modules.",
        "\n".join(f"- [`{name}`][{where[name]}]" for name in names),
    ]
    return "\n\n".join(parts) + "\n"


def api_page(page: ApiPage) -> str:
    """Return a page with an entry for each of its names."""
    parts = [f"# {page.title}", page.about]
    for dotted in names_of(page):
        module, _, name = dotted.rpartition(".")
        entry = f"::: {dotted}"
        if name in _WITH_INHERITED:
            entry += "\n    options:\n      inherited_members: true"
        parts.append(entry)
        fields = fields_of(name, source_of(_origins(_tree(module)).get(name) or module))
        if fields:
            parts.append("```python\n" + "\n".join([f"class {name}:", *fields]) + "\n```")
    return "\n\n".join(parts) + "\n"


def names_of(page: ApiPage) -> Iterator[str]:
    """Yield the names of a page with their modules."""
    for module in page.modules:
        for name in public_names(_tree(module)):
            yield f"{module}.{name}"
    yield from page.names


def public_names(tree: ast.Module) -> list[str]:
    """Return the public names that a module defines or re-exports as `X as X`."""
    exported = [
        name.name for node in _imports(tree) for name in node.names if name.asname == name.name
    ]
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    names = dict.fromkeys([*exported, *defined])
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


@cache
def fields_of(name: str, path: Path) -> tuple[str, ...]:
    """Return the fields of an attrs class as lines of its body; empty for anything else.

    attrs makes the signatures of these classes at import, so the sources do not have them.
    """
    body = ast.parse(path.read_text(encoding="utf-8")).body
    known = {**constants(), **{key: value for node in body for key, value in _constants_of(node)}}
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            made = any("attrs." in ast.unparse(decorator) for decorator in node.decorator_list)
            return tuple(_fields(node, known)) if made else ()
    return ()


@cache
def constants() -> Mapping[str, str]:
    """Return the short values of the module constants of the package, by name.

    A default such as `Deadlines().connect` counts as a constant too. A name that has different
    values in different modules is left out.
    """
    values: dict[str, set[str]] = {}
    for path in (ROOT / PACKAGE).rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for name, value in _constants_of(node):
                values.setdefault(name, set()).add(value.replace("MappingProxyType({})", "{}"))
    return {
        name: text
        for name, found in values.items()
        for text in found
        if len(found) == 1 and len(text) <= _LONGEST_DEFAULT
    }


def _constants_of(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            if re.fullmatch(r"_?[A-Z][A-Z_]+", name):
                yield name, ast.unparse(value)
        case ast.ClassDef(name=name, body=body):
            for field in body:
                match field:
                    case ast.AnnAssign(target=ast.Name(id=attribute), value=ast.expr() as default):
                        yield f"{name}().{attribute}", _default(default)
                    case _:
                        pass
        case _:
            pass


def _fields(node: ast.ClassDef, known: Mapping[str, str]) -> Iterator[str]:
    for item in node.body:
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
            continue
        kind = ast.unparse(item.annotation)
        if not item.target.id.startswith("_") and not kind.startswith("ClassVar"):
            value = _default(item.value)
            value = known.get(value, value)
            yield f"    {item.target.id}: {kind}" + (f" = {value}" if value else "")


def _default(value: ast.expr | None) -> str:
    match value:
        case None:
            return ""
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="attrs"), attr="field"), keywords=keywords
        ):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
            return f"{given['factory']}()" if "factory" in given else given.get("default", "")
        case _:
            return ast.unparse(value)


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    guarded = [node for test in tree.body if isinstance(test, ast.If) for node in test.body]
    return (node for node in [*tree.body, *guarded] if isinstance(node, ast.ImportFrom))


def _origins(tree: ast.Module) -> dict[str, str | None]:
    return {name.name: node.module for node in _imports(tree) for name in node.names}


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(source_of(module).read_text(encoding="utf-8"))


def source_of(module: str) -> Path:
    """Return the file of a module of this project."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _pages(docs: Path, pattern: str) -> Iterator[str]:
    for page in sorted((docs / pattern.removesuffix("/*")).glob("*.md")):
        yield page.relative_to(docs).as_posix()

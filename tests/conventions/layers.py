"""The layers of the library, checked by reading its imports.

`LAYERS` lists the layers of the design, top first. Imports go downward only: a package may import
packages of lower layers, and packages of its own layer unless that layer is blind. An import under
`TYPE_CHECKING` also counts, because it couples two packages just as much. The rules for outside
packages are below the table.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

import attrs

PACKAGE: Final = "agent_actors"
ROOT_MODULE: Final = "__init__"


@attrs.frozen
class Layer:
    """Packages of the same rank. Packages of a blind layer must not import each other."""

    packages: tuple[str, ...]
    blind: bool = False


LAYERS: Final = (
    Layer(("cli", "__main__")),
    Layer(("server",)),
    Layer(("asyncio", "testing"), blind=True),
    Layer(
        (ROOT_MODULE, "events", "model", "media", "audit", "logs")
    ),  # public modules that re-export names from below
    Layer(("client",)),
    Layer(("runtime",)),
    Layer(("subagents",)),
    Layer(("runs",)),
    Layer(
        ("actors", "providers", "stores", "toolbox", "mcp", "telemetry", "cluster"),
        blind=True,
    ),
    Layer(("transport",)),
    Layer(("kernel",)),
    Layer(("options",)),
    Layer(("hooks",)),
    Layer(("permissions",)),
    Layer(("profiles",)),
    Layer(("tools",)),
    Layer(("sessions", "context", "project"), blind=True),
    Layer(("schema",)),
    Layer(("codec",)),
    Layer(("protocol",)),
    Layer(("abc",)),
    Layer(("domain",)),
    Layer(("errors", "version")),
)
RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {package: -depth for depth, layer in enumerate(LAYERS) for package in layer.packages}
)
BLIND: Final = frozenset(package for layer in LAYERS if layer.blind for package in layer.packages)

# Only the wiring of the runtime may import implementations; the packages around it use ports.
ADAPTERS: Final = frozenset({"providers", "stores", "toolbox", "mcp", "telemetry", "cluster"})
SEES_PORTS_ONLY: Final = frozenset({"runs", "subagents", "runtime", "client"})
# `abc` imports trio for types; otherwise only packages from `kernel` upward import it.
MAY_IMPORT_TRIO: Final = frozenset({"abc"})
RECORDED_TRAFFIC: Final = "agent_actors/testing/runs/transports.py"
WIRING: Final = "agent_actors/runtime/wiring.py"

SANS_IO: Final = "protocol"
SANS_IO_NEVER: Final = frozenset({"trio", "httpx", "os", "time", "random"})
# The library must import without the packages of the extras, so only one package imports each.
EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cyclopts": "cli",
        "rich": "cli",
        "prompt_toolkit": "cli",
        "mcp": "mcp",
        "mcp_types": "mcp",
        "httpx2": "mcp",
        "tiktoken": "context",
        "pydantic": "schema",
        "markdownify": "toolbox",
        "bs4": "toolbox",
        "opentelemetry": "telemetry",
        "starlette": "server",
        "hypercorn": "server",
        "coredis": "cluster",
        "psycopg": "cluster",
    }
)


@attrs.frozen
class Import:
    """An imported name. `name` is set only for the form `from module import name`."""

    module: str
    name: str | None
    line: int
    typing_only: bool

    @property
    def root(self) -> str:
        """The top-level package of the module."""
        return self.module.partition(".")[0]

    @property
    def package(self) -> str | None:
        """The package of this library that is imported, or None for an outside package."""
        if self.root != PACKAGE:
            return None
        inside = self.module.partition(".")[2]
        if inside:
            return inside.partition(".")[0]
        return self.name if self.name in RANKS else ROOT_MODULE


def package_of(path: str) -> str:
    """Return the package of a file such as `agent_actors/domain/ids.py`."""
    inside = PurePosixPath(path).relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[Import]:
    """Yield each import in a module, including those in functions and by `import_module("…")`."""
    yield from _imports(tree, typing_only=False)


def _imports(node: ast.AST, *, typing_only: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(alias.name, None, node.lineno, typing_only)
        case ast.ImportFrom(module=module, names=names, level=level):
            for alias in names:
                yield Import("." * level + (module or ""), alias.name, node.lineno, typing_only)
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            yield Import(module, None, node.lineno, typing_only)
        case ast.If(test=test, body=body, orelse=orelse) if _is_type_checking(test):
            for child in body:
                yield from _imports(child, typing_only=True)
            for child in orelse:
                yield from _imports(child, typing_only=typing_only)
            return
        case _:
            pass
    for inner in ast.iter_child_nodes(node):
        yield from _imports(inner, typing_only=typing_only)


def _is_type_checking(test: ast.expr) -> bool:
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
        case _:
            return False


def violations(path: str, source: str) -> list[str]:
    """Return the imports that a file of the library must not contain, as `path:line: reason`."""
    tree = ast.parse(source)
    package = package_of(path)
    if package not in RANKS:
        return [f"{path}:1: {package!r} is in no layer; add the package to LAYERS"]
    found = [
        (imported.line, reason)
        for imported in imports(tree)
        for reason in (*_inside(path, package, imported), *_outside(path, package, imported))
    ]
    if package not in {"codec", "schema"} and "Any" in source:
        found.extend((line, "only codec/ and schema/ use `Any`") for line in _anys(tree))
    return [f"{path}:{line}: {reason}" for line, reason in sorted(set(found))]


def _inside(path: str, package: str, imported: Import) -> Iterator[str]:
    if imported.module.startswith("."):
        yield "relative import: name the package"
    other = imported.package
    if other is None or other == package:
        return
    if other not in RANKS:
        yield f"{other!r} is in no layer"
    elif RANKS[other] > RANKS[package]:
        yield f"{package} is below {other} and must not import it"
    elif RANKS[other] == RANKS[package] and package in BLIND:
        yield f"{package} and {other} must not import each other"
    elif package in SEES_PORTS_ONLY and other in ADAPTERS and path != WIRING:
        yield f"only {WIRING} may import concrete adapters, such as {other}"


def _outside(path: str, package: str, imported: Import) -> Iterator[str]:
    root = imported.root
    if package == SANS_IO and root in SANS_IO_NEVER:
        yield f"{SANS_IO}/ does no I/O and reads no clock; it must not import {root}"
    elif root == "trio" and RANKS[package] < RANKS["kernel"] and package not in MAY_IMPORT_TRIO:
        yield f"{package} is below kernel and must not import trio"
    may_import_httpx = package == "transport" or path == RECORDED_TRAFFIC
    if root == "httpx" and not (may_import_httpx or imported.typing_only):
        yield "only transport/ imports httpx (other packages only under `if TYPE_CHECKING:`)"
    if root == "hypothesis" and not _is_strategies(path):
        yield "only testing/strategies imports hypothesis"
    if root in {"asyncio", "anyio"} and package not in {"asyncio", "mcp", "server"}:
        yield f"this library uses trio and must not import {root}"
    if root == "sniffio" and package != "asyncio":
        yield "only asyncio/ crosses between trio and other libraries, so only it imports sniffio"
    owner = EXTRAS.get(root)
    if owner is not None and package != owner:
        yield f"{root} belongs to an extra; only {owner}/ imports it"


def _is_strategies(path: str) -> bool:
    return PurePosixPath(path).match(f"{PACKAGE}/testing/strategies*.py") or path.startswith(
        f"{PACKAGE}/testing/strategies/"
    )


def _anys(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="typing" | "typing_extensions", names=names):
                if any(alias.name == "Any" for alias in names):
                    yield node.lineno
            case ast.Attribute(value=ast.Name(id="typing" | "typing_extensions" | "t"), attr="Any"):
                yield node.lineno
            case _:
                pass

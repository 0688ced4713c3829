"""The layers of the library, read from its imports alone.

`LAYERS` is the table of the design, top first. Imports run downward only: a room sees the rooms of
lower layers, and those of its own layer unless the layer is blind. An import under `TYPE_CHECKING`
is an import too: it couples just as much. The rules for outside packages are below the table.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

import attrs

PACKAGE: Final = "agent_actors"
FACE: Final = "__init__"


@attrs.frozen
class Layer:
    """Rooms of one rank. In a blind layer none of them sees another."""

    rooms: tuple[str, ...]
    blind: bool = False


LAYERS: Final = (
    Layer(("cli", "__main__")),
    Layer(("server",)),
    Layer(("asyncio", "testing"), blind=True),
    Layer(
        (FACE, "events", "model", "media", "audit", "logs")
    ),  # public modules that re-export what is below
    Layer(("client",)),
    Layer(("runtime",)),
    Layer(("subagents",)),
    Layer(("run",)),
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
    {room: -depth for depth, layer in enumerate(LAYERS) for room in layer.rooms}
)
BLIND: Final = frozenset(room for layer in LAYERS if layer.blind for room in layer.rooms)

# Only the wiring of the runtime names implementations; the packages around it see ports.
ADAPTERS: Final = frozenset({"providers", "stores", "toolbox", "mcp", "telemetry", "cluster"})
SEES_PORTS_ONLY: Final = frozenset({"run", "subagents", "runtime", "client"})
# trio is imported in `abc`, for types, and from `kernel` upward.
MAY_IMPORT_TRIO: Final = frozenset({"abc"})
WIRING: Final = "agent_actors/runtime/wiring.py"

SANS_IO: Final = "protocol"
SANS_IO_NEVER: Final = frozenset({"trio", "httpx", "os", "time", "random"})
# Packages of the extras: importing the library without them must work, so one room holds each.
EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cyclopts": "cli",
        "rich": "cli",
        "prompt_toolkit": "cli",
        "mcp": "mcp",
        "tiktoken": "context",
        "opentelemetry": "telemetry",
        "starlette": "server",
        "hypercorn": "server",
        "coredis": "cluster",
        "psycopg": "cluster",
    }
)


@attrs.frozen
class Import:
    """One imported name: `name` is set in the form `from module import name`."""

    module: str
    name: str | None
    line: int
    typing_only: bool

    @property
    def package(self) -> str:
        """The outermost package."""
        return self.module.partition(".")[0]

    @property
    def room(self) -> str | None:
        """The room of this library that is imported, or None for an outside package."""
        if self.package != PACKAGE:
            return None
        inside = self.module.partition(".")[2]
        if inside:
            return inside.partition(".")[0]
        return self.name if self.name in RANKS else FACE


def room_of(path: str) -> str:
    """The room of a file such as `agent_actors/domain/ids.py`."""
    inside = PurePosixPath(path).relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[Import]:
    """Every import in a module, those inside functions and of `import_module("…")` too."""
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
    """What a file of the library imports and must not, as `path:line: reason`."""
    tree = ast.parse(source)
    room = room_of(path)
    if room not in RANKS:
        return [f"{path}:1: {room!r} is no room of the design; LAYERS gives each its rank"]
    found = [
        (imported.line, reason)
        for imported in imports(tree)
        for reason in (*_inside(path, room, imported), *_outside(path, room, imported))
    ]
    if room not in {"codec", "schema"}:
        found.extend((line, "`Any` belongs to codec/ and schema/") for line in _anys(tree))
    return [f"{path}:{line}: {reason}" for line, reason in sorted(set(found))]


def _inside(path: str, room: str, imported: Import) -> Iterator[str]:
    if imported.module.startswith("."):
        yield "relative import: the room must show"
    other = imported.room
    if other is None or other == room:
        return
    if other not in RANKS:
        yield f"{other!r} is no room of the design"
    elif RANKS[other] > RANKS[room]:
        yield f"{room} is below {other} and may not know it"
    elif RANKS[other] == RANKS[room] and room in BLIND:
        yield f"{room} and {other} do not import each other"
    elif room in SEES_PORTS_ONLY and other in ADAPTERS and path != WIRING:
        yield f"only {WIRING} names concrete adapters, such as {other}"


def _outside(path: str, room: str, imported: Import) -> Iterator[str]:
    package = imported.package
    if room == SANS_IO and package in SANS_IO_NEVER:
        yield f"{SANS_IO}/ does no I/O and reads no clock: no {package}"
    elif package == "trio" and RANKS[room] < RANKS["kernel"] and room not in MAY_IMPORT_TRIO:
        yield f"{room} is below kernel: no trio"
    if package == "httpx" and room != "transport" and not imported.typing_only:
        yield "httpx belongs to transport/ (elsewhere to `if TYPE_CHECKING:` alone)"
    if package == "hypothesis" and not _is_strategies(path):
        yield "hypothesis belongs to testing/strategies alone"
    if package in {"asyncio", "anyio"} and room not in {"asyncio", "mcp", "server"}:
        yield f"this is a trio library: no {package}"
    home = EXTRAS.get(package)
    if home is not None and room != home:
        yield f"{package} is an extra: only {home}/ imports it"


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

"""Import cycles between the modules of the library. Imports for type checkers count too."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from tests.conventions.layers import PACKAGE, imports


def module_of(path: str) -> str:
    """Return the dotted name of a file such as `agent_actors/domain/ids.py`."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def import_graph(sources: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return which modules each module imports.

    Args:
        sources: The text of each file of the library, by its path.
    """
    modules = {module_of(path): text for path, text in sources.items()}
    return {
        module: frozenset(_imported(module, ast.parse(text), modules.keys()))
        for module, text in modules.items()
    }


def _imported(module: str, tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    names = set(known)
    for imported in imports(tree):
        if imported.root != PACKAGE:
            continue
        submodule = f"{imported.module}.{imported.name}"
        target = submodule if submodule in names else imported.module
        if target in names and target != module:
            yield target


def cycles(graph: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Return the groups of modules that import each other, directly or not, in order.

    These are the strongly connected components with more than one module (Tarjan's algorithm).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(tuple(sorted(group)))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return sorted(found)

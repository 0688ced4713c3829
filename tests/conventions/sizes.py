"""Limits on the length of functions and on the number of modules in a folder.

A function's length is counted from its `def` to its last line, without the docstring. A longer
function needs a comment with the reason on its `def` line: `# size: <reason>`. Files have no limit.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from scripts.prose import statements

FUNCTION_LINES: Final = 60
FOLDER_MODULES: Final = 14
_EXCEPTION: Final = re.compile(r"#\s*size:\s*\S")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_lines(node: _Function) -> int:
    """Return the number of lines of a function without its docstring."""
    lines = _last_line(node) - node.lineno + 1
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as docstring:
            return lines - (_last_line(docstring) - docstring.lineno + 1)
        case _:
            return lines


def _last_line(node: ast.stmt) -> int:
    assert node.end_lineno is not None  # always set by ast.parse
    return node.end_lineno


def oversized(path: str, source: str) -> list[str]:
    """Return the functions of a file that are too long without a reason, as `path:line: reason`."""
    return [f"{path}:{line}: {reason}" for line, reason in _oversized(source)]


def _oversized(source: str) -> Iterator[tuple[int, str]]:
    lines = source.splitlines()
    for node in statements(ast.parse(source)):
        if not isinstance(node, _Function) or _EXCEPTION.search(lines[node.lineno - 1]):
            continue
        count = function_lines(node)
        if count > FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {count} lines; at most {FUNCTION_LINES}"


def crowded(paths: Iterable[str]) -> list[str]:
    """Return the folders with too many modules, as `folder: reason`."""
    modules = [PurePosixPath(path) for path in paths]
    counts = Counter(str(path.parent) for path in modules)
    return [
        f"{folder}: {count} modules; at most {FOLDER_MODULES}"
        for folder, count in sorted(counts.items())
        if count > FOLDER_MODULES
    ]

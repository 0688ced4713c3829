"""How long functions and files may be.

A function counts from its `def` to its last line, its docstring left out; a file counts all lines.
An exception is a comment with its reason: `# size: <reason>` on the `def` line, or within the first
lines of a file.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

FUNCTION_LINES: Final = 60
FILE_LINES: Final = 500
# Where a file's own exception may stand: the first lines, before or right after a short docstring.
HEAD_LINES: Final = 5
_EXCEPTION: Final = re.compile(r"#\s*size:\s*\S")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def function_lines(node: _Function) -> int:
    """The lines of a function without its docstring."""
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
    """What in a file is too long and gives no reason, as `path:line: reason`."""
    return [f"{path}:{line}: {reason}" for line, reason in _oversized(source)]


def _oversized(source: str) -> Iterator[tuple[int, str]]:
    lines = source.splitlines()
    if len(lines) > FILE_LINES and not any(map(_EXCEPTION.search, lines[:HEAD_LINES])):
        yield 1, f"{len(lines)} lines; a file has at most {FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, _Function) or _EXCEPTION.search(lines[node.lineno - 1]):
            continue
        count = function_lines(node)
        if count > FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {count} lines; at most {FUNCTION_LINES}"

"""Measure the structure of the package.

`python -m scripts.structure [ROOT]` prints the size of `agent_actors/`: lines of code, functions,
modules and folders. Lines of code are lines that contain code; docstrings, comments and blank lines
do not count.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


def code_lines(source: str) -> int:
    """Count the lines that contain code."""
    documented = {
        line
        for docstring in docstrings(ast.parse(source))
        for line in range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every string that is a statement: docstrings and the texts below attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text
            case _:
                pass


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and its number of lines, without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        match node.body[0]:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                length -= (text.end_lineno or text.lineno) - text.lineno + 1
            case _:
                pass
        yield node.name, length


def measure(root: Path) -> list[tuple[str, str]]:
    """Return the rows of the table: a name and a figure."""
    package = root / "agent_actors"
    sources = {path: path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    lengths = [
        (length, f"{name} in {path.relative_to(root)}")
        for path, source in sources.items()
        for name, length in functions(source)
    ]
    folders = {folder: 0 for path in sources for folder in [path.parent]}
    for path in sources:
        folders[path.parent] += path.name != "__init__.py"
    longest, where = max(lengths)
    fullest = max(folders, key=lambda folder: folders[folder])
    modules = sum(path.name != "__init__.py" for path in sources)
    return [
        ("lines of code", f"{sum(map(code_lines, sources.values())):,}"),
        ("modules", f"{modules:,}"),
        ("packages", f"{len(folders):,}"),
        ("most modules in a package", f"{folders[fullest]} in {fullest.relative_to(root)}"),
        ("functions", f"{len(lengths):,}"),
        ("longest function", f"{longest} lines: {where}"),
    ]


def main(arguments: list[str]) -> None:
    """Print the table for a checkout; the current directory by default."""
    rows = measure(Path(arguments[0]) if arguments else Path())
    width = max(len(name) for name, _ in rows)
    for name, figure in rows:
        print(f"{name:<{width}}  {figure}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The rows of features.tsv that tests cover.

A test names its rows with `@pytest.mark.feature("OAS-021")`. A mark may hold several ids. A mark on
a class, or in a module's `pytestmark`, applies to all tests in the class or module. Marks are read
from the source. A marked test therefore counts even if it is not run here, unless it is skipped.
"""

import ast
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

COLUMNS: Final = ["id", "design", "capability", "group", "weight"]
# A test that never runs, or that is known to fail, covers no row.
_NOT_SHOWN: Final = frozenset({"skip", "xfail"})


@attrs.frozen
class Row:
    """A capability, and the groups of work that it belongs to."""

    id: str
    capability: str
    groups: frozenset[str]


@attrs.frozen
class Marks:
    """The ids that a test file names, and the errors in its marks."""

    ids: frozenset[str]
    problems: tuple[str, ...]


def parse_rows(text: str) -> list[Row]:
    """Return the rows of the table; raise ValueError if it is malformed or repeats an id."""
    header, *lines = csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    if header != COLUMNS:
        raise ValueError(f"columns {COLUMNS} expected, got {header}")
    rows: list[Row] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, start=2):
        if len(line) != len(COLUMNS):
            raise ValueError(f"line {number}: {len(COLUMNS)} fields expected, got {len(line)}")
        identifier, _, capability, groups, _ = line
        if identifier in seen:
            raise ValueError(f"line {number}: {identifier} is listed twice")
        seen.add(identifier)
        rows.append(Row(identifier, capability, frozenset(groups.split(","))))
    return rows


def marks(path: str, source: str) -> Marks:
    """Read the feature marks of one test file."""
    ids: set[str] = set()
    problems: list[str] = []
    # A search is much faster than a visit of the syntax tree, and most files have no mark.
    calls = _feature_calls(ast.parse(source)) if "feature" in source else ()
    for where, call in calls:
        if where is None:
            problems.append(f"{path}:{call.lineno}: a feature mark on something that is not a test")
        elif not call.args or call.keywords:
            problems.append(
                f"{path}:{call.lineno}: a feature mark takes at least one id and no keywords"
            )
        for argument in call.args:
            match argument:
                case ast.Constant(value=str(identifier)):
                    ids.add(identifier)
                case _:
                    problems.append(f"{path}:{call.lineno}: write each id as a string literal")
    return Marks(frozenset(ids), tuple(problems))


def _feature_calls(tree: ast.Module) -> Iterator[tuple[str | None, ast.Call]]:
    """Yield each `mark.feature(…)` with the marked test's name, or None if it marks no test."""
    for statement in tree.body:
        yield from _of_statement(statement)


def _of_statement(statement: ast.stmt) -> Iterator[tuple[str | None, ast.Call]]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            if not any(_is_mark(node, _NOT_SHOWN) for node in statement.decorator_list):
                yield from _calls(statement, name if name.startswith("test") else None)
        case ast.ClassDef(name=name):
            for decorator in statement.decorator_list:
                yield from _calls(decorator, name if name.startswith("Test") else None)
            for inner in statement.body:
                yield from _of_statement(inner)
        case ast.Assign(targets=[ast.Name(id="pytestmark")]):
            yield from _calls(statement, "pytestmark")
        case _:
            yield from _calls(statement, None)


def _calls(node: ast.AST, where: str | None) -> Iterator[tuple[str | None, ast.Call]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and _is_mark(inner, {"feature"}):
            yield where, inner


def _is_mark(node: ast.expr, names: Iterable[str]) -> bool:
    """Return whether this is `pytest.mark.<name>` or `mark.<name>`, called or not."""
    match node:
        case ast.Call(func=function):
            return _is_mark(function, names)
        case ast.Attribute(value=ast.Attribute(attr="mark") | ast.Name(id="mark"), attr=attr):
            return attr in names
        case _:
            return False


def shortfalls(
    rows: Iterable[Row], tests: Mapping[str, Marks], finished: frozenset[str]
) -> list[str]:
    """Return the rows of finished groups without a test, and the ids in tests without a row."""
    table = {row.id: row for row in rows}
    shown = {identifier for found in tests.values() for identifier in found.ids}
    return [
        *(problem for found in tests.values() for problem in found.problems),
        *(
            f"{path}: {identifier} is not a row of features.tsv"
            for path, found in tests.items()
            for identifier in sorted(found.ids - table.keys())
        ),
        *(
            f"{row.id} has no test: {row.capability}"
            for row in table.values()
            if row.groups & finished and row.id not in shown
        ),
    ]

"""Which rows of features.tsv the tests show.

A test names the rows that it shows with `@pytest.mark.feature("OAS-021")`; several ids are
allowed, and a class or a module's `pytestmark` stands for all tests in it. Marks are read from the
source, so that a test that is not run here still counts, and a skipped one does not.
"""

import ast
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

COLUMNS: Final = ["id", "design", "capability", "group", "weight"]
# A test that never runs, or is known to fail, shows nothing.
_NOT_SHOWN: Final = frozenset({"skip", "xfail"})


@attrs.frozen
class Row:
    """One capability, and the groups of work that it belongs to."""

    id: str
    capability: str
    groups: frozenset[str]


@attrs.frozen
class Marks:
    """The ids that a test file names, and what is wrong with how it names them."""

    ids: frozenset[str]
    problems: tuple[str, ...]


def parse_rows(text: str) -> list[Row]:
    """The rows of the table; raises ValueError for a table of another form or an id used twice."""
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
            raise ValueError(f"line {number}: {identifier} stands there twice")
        seen.add(identifier)
        rows.append(Row(identifier, capability, frozenset(groups.split(","))))
    return rows


def marks(path: str, source: str) -> Marks:
    """Read the feature marks of one test file."""
    ids: set[str] = set()
    problems: list[str] = []
    tree = ast.parse(source)
    for where, call in _feature_calls(tree):
        if where is None:
            problems.append(f"{path}:{call.lineno}: a feature mark on what is no test")
        elif not call.args or call.keywords:
            problems.append(f"{path}:{call.lineno}: a feature mark takes ids, and at least one")
        for argument in call.args:
            match argument:
                case ast.Constant(value=str(identifier)):
                    ids.add(identifier)
                case _:
                    problems.append(f"{path}:{call.lineno}: ids are written out as strings")
    return Marks(frozenset(ids), tuple(problems))


def _feature_calls(tree: ast.Module) -> Iterator[tuple[str | None, ast.Call]]:
    """Each `mark.feature(…)`, with the name of what it marks, or None where that is no test."""
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
    """Whether this is `pytest.mark.<name>`, called or bare, or the same from `mark`."""
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
    """What is missing: a test for a row of a finished group, or a row for an id in a test."""
    table = {row.id: row for row in rows}
    shown = {identifier for found in tests.values() for identifier in found.ids}
    return [
        *(problem for found in tests.values() for problem in found.problems),
        *(
            f"{path}: {identifier} is no row of features.tsv"
            for path, found in tests.items()
            for identifier in sorted(found.ids - table.keys())
        ),
        *(
            f"{row.id} has no test: {row.capability}"
            for row in table.values()
            if row.groups & finished and row.id not in shown
        ),
    ]

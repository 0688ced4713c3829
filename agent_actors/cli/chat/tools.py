"""The tools of a chat: the user's own tools, loaded by name, and demo tools.

The demo tools have no effect outside of the chat. One of them changes a list of notes in memory, so
that the chat asks for approval.
"""

import ast
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, cast

from agent_actors import Tool, tool
from agent_actors.errors import ConfigError
from agent_actors.tools import check_tools

_Number = int | float
_OPERATIONS: Final[dict[type[ast.operator], Callable[[_Number, _Number], _Number]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
# Maximum length of a formula. Products of so few digits are small, and there are no powers.
_LONGEST_FORMULA: Final = 200
_MOST_NOTES: Final = 100


def load_tools(specs: Iterable[str]) -> list[Tool]:
    """Load the user's tools.

    Args:
        specs: Strings of the form `module:attribute`. The attribute is a tool, a function or a
            sequence of these. Modules are found as by `python -m`, including in the current
            directory.

    Raises:
        ConfigError: A tool cannot be loaded; the message names it and the reason.
    """
    found: list[Tool] = []
    for spec in specs:
        found += _load(spec)
    return found


def _load(spec: str) -> tuple[Tool, ...]:
    name, colon, attribute = spec.partition(":")
    if not (name and colon and attribute):
        raise ConfigError(f"--tools: expected module:attribute, such as tools:ALL; got {spec!r}")
    here = os.getcwd()  # noqa: PTH109 - entries of sys.path are strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: object = importlib.import_module(name)
    except Exception as error:
        # Any error of a user's module is reported in one line, like other errors in arguments.
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"--tools: {name!r} cannot be imported: {what}") from error
    for part in attribute.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise ConfigError(f"--tools: module {name!r} has no {attribute!r}")
    try:
        return check_tools(_as_tool(one) for one in _listed(value))
    except ConfigError as error:
        raise ConfigError(f"--tools {spec}: {error}") from error


def _listed(value: object) -> Iterable[object]:
    return cast(Iterable[object], value) if isinstance(value, list | tuple) else (value,)


def _as_tool(value: object) -> object:
    return tool(value) if inspect.isfunction(value) else value


def demo_tools(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> tuple[Tool, ...]:
    """Return a clock, a calculator, and notes that last as long as the chat."""
    notes: list[str] = []

    @tool(read_only=True, open_world=False)
    def clock() -> str:
        """Return the date and the time, in UTC."""
        return now().strftime("%A, %Y-%m-%d %H:%M:%S UTC")

    @tool(read_only=True, open_world=False)
    def calculate(formula: str) -> str:
        """Calculate a formula of numbers, + - * / // % and brackets.

        Args:
            formula: The formula, for example (3 + 4) * 12.5
        """
        return str(evaluate(formula))

    @tool(read_only=True, open_world=False)
    def read_notes() -> list[str]:
        """Return the notes taken so far."""
        return list(notes)

    @tool(destructive=False, open_world=False)
    def take_note(text: str) -> str:
        """Keep a note for later in this chat.

        Args:
            text: The note.
        """
        if len(notes) >= _MOST_NOTES:
            raise ValueError(f"there are {_MOST_NOTES} notes already, which is the maximum")
        notes.append(text)
        return f"note {len(notes)} taken"

    return (clock, calculate, read_notes, take_note)


def evaluate(formula: str) -> int | float:
    """Evaluate a formula; no other code can be executed.

    Raises:
        ValueError: The formula is too long, or contains more than numbers, operators and brackets.
        ZeroDivisionError, OverflowError: As in Python.
    """
    if len(formula) > _LONGEST_FORMULA:
        raise ValueError(f"a formula has at most {_LONGEST_FORMULA} characters")
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("the formula is not valid") from None
    return _value(tree.body)


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left), _value(right))
        case _:
            raise ValueError("a formula may contain only numbers, + - * / // % and brackets")

"""The tools of a chat: a user's own, by name, and a few to try it with.

The demo's tools touch nothing outside of the chat. One of them changes something, a list of notes
in memory, so that the chat asks about it.
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
# Characters of a formula. Products of so few digits are small, and there are no powers.
_LONGEST_FORMULA: Final = 200
_MOST_NOTES: Final = 100


def load_tools(specs: Iterable[str]) -> list[Tool]:
    """A user's tools.

    Args:
        specs: Each `module:attribute`, of a tool, a function or a sequence of these; modules are
            found as `python -m` finds them, from the current directory too.

    Raises:
        ConfigError: Which one cannot be loaded, and why.
    """
    found: list[Tool] = []
    for spec in specs:
        found += _load(spec)
    return found


def _load(spec: str) -> tuple[Tool, ...]:
    name, colon, attribute = spec.partition(":")
    if not (name and colon and attribute):
        raise ConfigError(f"--tools: expected module:attribute, such as tools:ALL; got {spec!r}")
    here = os.getcwd()  # noqa: PTH109 - entries of sys.path are text
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: object = importlib.import_module(name)
    except Exception as error:
        # What a user's module raises is told in a line, as all that is wrong with arguments is.
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
    """A clock, a calculator, and notes that are kept as long as the chat lasts."""
    notes: list[str] = []

    @tool(read_only=True, open_world=False)
    def clock() -> str:
        """The date and the time, in UTC."""
        return now().strftime("%A, %Y-%m-%d %H:%M:%S UTC")

    @tool(read_only=True, open_world=False)
    def calculate(formula: str) -> str:
        """Work out a formula of numbers, + - * / // % and brackets.

        Args:
            formula: Such as (3 + 4) * 12.5
        """
        return str(evaluate(formula))

    @tool(read_only=True, open_world=False)
    def read_notes() -> list[str]:
        """The notes that were taken so far."""
        return list(notes)

    @tool(destructive=False, open_world=False)
    def take_note(text: str) -> str:
        """Keep a note for later in this chat.

        Args:
            text: The note.
        """
        if len(notes) >= _MOST_NOTES:
            raise ValueError(f"there are {_MOST_NOTES} notes already, and no more room")
        notes.append(text)
        return f"note {len(notes)} taken"

    return (clock, calculate, read_notes, take_note)


def evaluate(formula: str) -> int | float:
    """What a formula comes to; it can do nothing but count.

    Raises:
        ValueError: It is too long, or not made of numbers, operators and brackets.
        ZeroDivisionError, OverflowError: As Python has them.
    """
    if len(formula) > _LONGEST_FORMULA:
        raise ValueError(f"a formula has at most {_LONGEST_FORMULA} characters")
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("that is no formula") from None
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
            raise ValueError("a formula is made of numbers, + - * / // % and brackets")

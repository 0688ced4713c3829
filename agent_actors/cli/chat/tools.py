"""The demo tools of a chat, which have no effect outside the chat.

One of them changes a list of notes in memory, so the chat asks for approval before it runs.
"""

import ast
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from agent_actors import Tool, tool

_Number = int | float
_OPERATIONS: Final[dict[type[ast.operator], Callable[[_Number, _Number], _Number]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
# Maximum number of characters of a formula, to keep products small. Powers are not supported.
_LONGEST_FORMULA: Final = 200
_MOST_NOTES: Final = 100


def demo_tools(now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> tuple[Tool, ...]:
    """Return the tools: a clock, a calculator, and notes that last as long as the chat."""
    notes: list[str] = []

    @tool(read_only=True, open_world=False)
    def clock() -> str:
        """Return the date and the time, in UTC."""
        return now().strftime("%A, %Y-%m-%d %H:%M:%S UTC")

    @tool(read_only=True, open_world=False)
    def calculate(formula: str) -> str:
        """Evaluate a formula that consists of numbers, + - * / // % and brackets.

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
        raise ValueError(f"the formula is too long; expected at most {_LONGEST_FORMULA} characters")
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

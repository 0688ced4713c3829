"""The class of dependencies that the hint of a context names."""

from typing import Any, Protocol, runtime_checkable

import pytest

from agent_actors.tools import ToolContext
from agent_actors.tools.binding import deps_of_context


class Static(Protocol):
    def close(self) -> None: ...


@runtime_checkable
class Checkable(Protocol):
    def close(self) -> None: ...


class Database:
    """The dependencies of a test."""


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (ToolContext[Database], Database),
        (ToolContext[list[int]], list),
        (ToolContext[Checkable], Checkable),
        (ToolContext[Static], None),
        (ToolContext[object], None),
        (ToolContext[Any], None),
        (ToolContext[Static] | ToolContext[Database], Database),
        (ToolContext, None),
    ],
    ids=str,
)
def test_class_can_be_checked(hint: object, expected: type | None) -> None:
    assert deps_of_context(hint) is expected

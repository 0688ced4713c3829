"""Resolved type hints: of functions, and of other callables."""

import sys
from collections.abc import Callable
from typing import Any, Optional, cast

import pytest

from agent_actors.codec.hints import resolved_hints
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import SchemaError
from agent_actors.schema.generate import hint_schema
from agent_actors.schema.type_hints import (
    Parameter,
    parameters_of,
    type_name,
    unwrapped,
)


def json_everywhere(
    a: JsonValue,
    b: JsonObject,
    c: "list[JsonValue]",
    d: Optional[JsonValue] = None,  # noqa: UP045 - both ways of writing it
    e: dict[str, list[JsonValue]] | None = None,
) -> None: ...


def test_json_value_is_read_as_any_json() -> None:
    hints = {parameter.name: parameter.hint for parameter in parameters_of(json_everywhere)}
    assert hints == {
        "a": Any,
        "b": dict[str, Any],
        "c": list[Any],
        "d": Any,
        "e": dict[str, list[Any]] | None,
    }


def test_own_json_alias_is_kept() -> None:
    namespace: dict[str, Any] = {"JsonValue": int}
    exec("def own(a: 'JsonValue', b: 'list[JsonValue]') -> None: ...", namespace)
    assert [p.hint for p in parameters_of(namespace["own"])] == [int, list[int]]


def test_callable_without_module_is_resolved() -> None:
    class Called:
        def __call__(self, a: int) -> None: ...

    assert [(p.name, p.hint) for p in parameters_of(Called())] == [("a", int)]
    assert resolved_hints(type("Bare", (), {"__module__": "nowhere"})) == {}


def test_non_type_hint_is_refused() -> None:
    def wrong(a: "3 +") -> None: ...  # type: ignore[valid-type] # pyright: ignore # noqa: F722, PGH003

    function = cast(Any, wrong)
    with pytest.raises(SchemaError, match=r"a type hint of .*wrong is not a type"):
        parameters_of(function)


def test_parameter_without_default_is_required() -> None:
    assert Parameter("a", int).required
    assert not Parameter("a", int, None).required


def test_hints_are_written_as_in_python() -> None:
    assert type_name(None) == type_name(type(None)) == "None"
    assert type_name(int | None) == "int | None"
    assert type_name(dict[str, Any]) == "dict[str, Any]"
    assert type_name(Parameter) == "Parameter"


def takes_a_callable(a: Callable[[int], str]) -> None: ...


def test_callable_hint_keeps_its_arguments() -> None:
    (parameter,) = parameters_of(takes_a_callable)
    with pytest.raises(SchemaError, match=r"parameter 'a': .*Callable\[\[int\], str\] has no"):
        hint_schema(parameter.hint, name="a")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the statement is new in Python 3.12")
def test_type_statement_is_resolved() -> None:
    namespace: dict[str, Any] = {}
    exec("type Id = int", namespace)
    assert hint_schema(namespace["Id"], name="a") == {"type": "integer"}


def test_type_aliases_are_resolved() -> None:
    """The alias has the attributes of a `type` statement, which old Python versions lack."""
    alias = type("TypeAliasType", (), {"__value__": int})()
    assert unwrapped(alias) is int

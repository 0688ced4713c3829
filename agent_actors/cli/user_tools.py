"""Loads the user's own tools by name, for `--tools`."""

import importlib
import inspect
import os
import sys
from collections.abc import Iterable
from typing import cast

from agent_actors import Tool, tool
from agent_actors.errors import ConfigError
from agent_actors.tools import check_tools


def load_tools(specs: Iterable[str]) -> list[Tool]:
    """Load the user's tools.

    Args:
        specs: Strings of the form `module:attribute`. The attribute is a tool, a function or a
            sequence of these. Modules are searched for as with `python -m`, including in the
            current directory.

    Raises:
        ConfigError: A tool cannot be loaded; the message names the tool and the reason.
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
        # Any error in a user's module is reported in one line, like other invalid arguments.
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

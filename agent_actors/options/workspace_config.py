"""The workspace of an agent as it is configured, before it is created.

The classes of workspaces are in packages above this one. `runtime/wiring.py` creates them.
"""

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Final, TypeAlias, cast

import attrs

from agent_actors.abc import Workspace
from agent_actors.domain.run import RunInfo
from agent_actors.domain.workspace.processes import ProcessLimits
from agent_actors.domain.workspace.report import Network
from agent_actors.errors import ConfigError
from agent_actors.options.validation import nearest
from agent_actors.permissions.urls import DomainPattern

WorkspaceFactory: TypeAlias = Callable[[RunInfo], "Workspace | Awaitable[Workspace]"]
"""Creates the workspace of a session, when a run of the session first needs it."""

_SHARED: Final = ("type", "allowed_paths", "read_only", "protected", "limits")
_IN_CONTAINER: Final = (*_SHARED, "image", "workdir", "mounts", "network", "user")
CONTAINER_ENGINES: Final = ("docker", "podman")
"""The types that are engines of containers."""
# The fields of each type. A field that another type has is rejected, since it would have no effect.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "local": (*_SHARED, "root", "processes"),
        "bubblewrap": (*_SHARED, "root", "network"),
        **dict.fromkeys(CONTAINER_ENGINES, _IN_CONTAINER),
    }
)
_LISTS: Final = ("allowed_paths", "protected")
_TEXTS: Final = ("image", "workdir", "user")
_PROCESSES: Final = ("refused", "unconfined")


@attrs.frozen(eq=False)
class WorkspaceConfig:
    """A workspace that the runtime creates for each session.

    Attributes:
        type: The type: `local`, `bubblewrap`, `docker` or `podman`.
        settings: The other fields that were set: arguments of the class of that type.
    """

    type: str
    settings: Mapping[str, object]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkspaceConfig) and (self.type, dict(self.settings)) == (
            other.type,
            dict(other.settings),
        )

    def __hash__(self) -> int:
        return hash((self.type, tuple(sorted(self.settings))))


WorkspaceSource: TypeAlias = Workspace | WorkspaceFactory | WorkspaceConfig


def as_workspace(value: object) -> WorkspaceSource | None:
    """Return the workspace, its factory or its configuration.

    Raises:
        ConfigError: The value is none of these, or the configuration is not valid.
    """
    if value is None or isinstance(value, WorkspaceConfig):
        return value
    if isinstance(value, Mapping):
        return _config(cast("Mapping[object, object]", value))
    if inspect.isclass(value):
        raise ConfigError(
            "AgentOptions: workspace must be an object, not a class; write "
            f"workspace={value.__name__}(...) or a factory: lambda info: {value.__name__}(...)"
        )
    if isinstance(value, Workspace):
        return value
    if callable(value):
        return cast(WorkspaceFactory, value)
    raise ConfigError(
        "AgentOptions: workspace must be a Workspace, a function that returns one, or a table such "
        f"as {{'type': 'local', 'root': '.'}}; got {value!r:.80}"
    )


def same_source(one: WorkspaceSource, other: WorkspaceSource) -> bool:
    """Return whether two options certainly describe the same workspace.

    A function that is defined anew for each run is the same factory if it has the same code,
    defaults and captured values. A different factory might confine the agent differently.
    """
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        return _parts(one) == _parts(other)
    return one is other or one == other


def _parts(function: FunctionType) -> tuple[object, ...]:
    cells = function.__closure__ or ()
    try:
        captured = tuple(cell.cell_contents for cell in cells)
    except ValueError:  # a variable that is not assigned yet
        return (function,)
    return (function.__code__, function.__defaults__, function.__kwdefaults__, captured)


def _config(table: Mapping[object, object]) -> WorkspaceConfig:
    given = {str(name): value for name, value in table.items()}
    kind = given.get("type")
    if kind is None:
        raise _error(f"type is missing; expected one of {', '.join(_FIELDS)}")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise _error(f"unknown type {kind!r:.80}; {nearest(str(kind), _FIELDS)}")
    settings: dict[str, object] = {}
    for name, value in given.items():
        if name not in _FIELDS[kind]:
            raise _error(f"type {kind!r} has no field {name!r}; {nearest(name, _FIELDS[kind])}")
        if name != "type":
            settings[name] = _setting(name, value)
    if kind in CONTAINER_ENGINES and "image" not in settings:
        raise _error(f"type {kind!r} requires image, for example image='python:3.13'")
    return WorkspaceConfig(kind, MappingProxyType(settings))


def _setting(name: str, value: object) -> object:
    if name == "root":
        if isinstance(value, str | os.PathLike) and os.fspath(cast("str", value)):
            return Path(cast("str", value))
        raise _error(f"root must be a path; got {value!r:.80}")
    if name == "read_only":
        if isinstance(value, bool):
            return value
        raise _error(f"read_only must be True or False; got {value!r:.80}")
    if name == "network":
        return _network(value)
    if name in _LISTS:
        return _texts(name, value)
    if name in _TEXTS:
        if isinstance(value, str) and value:
            return value
        raise _error(f"{name} must be a text that is not empty; got {value!r:.80}")
    if name == "mounts":
        return _mounts(value)
    if name == "processes":
        if value in _PROCESSES:
            return value
        raise _error(f"processes must be 'refused' or 'unconfined'; got {value!r:.80}")
    return _limits(value)


def _network(value: object) -> Network:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list | tuple):
        raise _error(f"network must be True, False or a list of hosts; got {value!r:.80}")
    hosts = _texts("network", cast("object", value))
    for host in hosts:
        try:
            DomainPattern.parse(host)
        except ConfigError as error:
            raise _error(f"network: {error}") from None
    return hosts


def _limits(value: object) -> ProcessLimits:
    if isinstance(value, ProcessLimits):
        return value
    if not isinstance(value, Mapping):
        raise _error(f"limits must be a ProcessLimits or a table; got {value!r:.80}")
    table = cast("Mapping[str, object]", value)
    known = [field.name for field in attrs.fields(ProcessLimits)]
    for name, limit in table.items():
        if name not in known:
            raise _error(f"limits has no field {name!r}; {nearest(str(name), known)}")
        if limit is not None and (not isinstance(limit, int | float) or not limit > 0):
            raise _error(f"limits: {name} must be a number above 0, or None; got {limit!r:.80}")
    return cast("Callable[..., ProcessLimits]", ProcessLimits)(**dict(table))


def _mounts(value: object) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        if all(
            isinstance(path, str | os.PathLike) and isinstance(target, str)
            for path, target in table.items()
        ):
            return {os.fspath(cast(str, path)): cast(str, to) for path, to in table.items()}
    raise _error(
        "mounts must be a table of directories and their absolute paths in the container, such as "
        f"{{'.': '/workspace'}}; got {value!r:.80}"
    )


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        items = tuple(cast("list[object]", value))
        if all(isinstance(item, str | os.PathLike) for item in items):
            return tuple(os.fspath(cast(str, item)) for item in items)
    raise _error(f"{name} must be a list of strings; got {value!r:.80}")


def _error(message: str) -> ConfigError:
    return ConfigError(f"AgentOptions: workspace: {message}")

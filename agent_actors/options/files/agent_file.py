"""Agents that a file describes by names: tools, hooks and providers, a backend, skills and memory.

A file with the key `name` describes an agent. Its keys are the field names of `AgentOptions`, and
the additional keys of this module. Names of tools, hooks and providers are resolved in a registry.
"""

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.options.validation import nearest
from agent_actors.tools.builtin_names import BUILTIN_NAMES, VOCABULARIES, tools_in_workspace

_LOG: Final = logging.getLogger(__name__)

_MODEL_FIELDS: Final = (
    "base_url",
    "provider",
    "api_key",
    "headers",
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "extra_body",
    "limits",
    "fallbacks",
)
_TODO: Final = ("TodoWrite", "write_todos")
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


@attrs.frozen(eq=False)
class AgentRegistry:
    """The objects that files of agents may name.

    Attributes:
        tools: Tools, by name.
        hooks: Hooks, by name: anything that `AgentOptions.hooks` accepts as an item.
        providers: Custom providers, by name.
    """

    tools: Mapping[str, object] = _NOTHING
    hooks: Mapping[str, object] = _NOTHING
    providers: Mapping[str, object] = _NOTHING


NO_REGISTRY: Final = AgentRegistry()


@attrs.frozen
class AgentTable:
    """The table of a file, as fields of `AgentOptions`.

    Attributes:
        data: The fields that are data.
        objects: The fields that are objects of the registry.
    """

    data: Mapping[str, object]
    objects: Mapping[str, object]


def agent_table(table: Mapping[str, object], registry: AgentRegistry) -> AgentTable:
    """Return the fields that the table of a file describes.

    Tools for files, skills and memory files are used only with a backend, because the agent could
    not read them otherwise. The tool for tasks is always offered.

    Raises:
        ConfigError: A name is unknown, or a value does not have the expected form.
    """
    if "name" not in table:
        return AgentTable(table, {})
    data = dict(table)
    objects: dict[str, object] = {}
    _move(data, "name", "agent_name")
    _move(data, "backend", "workspace")
    has_backend = data.get("workspace") is not None
    _split_model(data)
    _split_tools(data, objects, registry, has_backend=has_backend)
    for key, field in (("skills", "skill_paths"), ("memory", "memory_paths")):
        paths = _paths(data, key)
        if paths and has_backend:
            data[field] = paths
        elif paths:
            _LOG.warning("%s of the agent %r are not used without a backend", key, table["name"])
    if "hooks" in data:
        names = _names("hooks", data.pop("hooks"))
        objects["hooks"] = [_registered("hook", name, registry.hooks) for name in names]
    provider = data.get("provider")
    if isinstance(provider, str) and provider in registry.providers:
        objects["provider"] = registry.providers[provider]
        del data["provider"]
    return AgentTable(data, objects)


def _move(data: dict[str, object], key: str, field: str) -> None:
    if key not in data:
        return
    if field in data:
        raise ConfigError(f"{key} and {field} are the same field; pass only one of them")
    data[field] = data.pop(key)


def _split_model(data: dict[str, object]) -> None:
    model = data.get("model")
    if not isinstance(model, dict):
        return
    table = dict(cast("dict[str, object]", model))
    data["model"] = table.pop("name", "")
    for key, value in table.items():
        if key not in _MODEL_FIELDS:
            raise ConfigError(
                f"model has no field {key!r}; {nearest(key, ('name', *_MODEL_FIELDS))}"
            )
        if key in data:
            raise ConfigError(
                f"{key} is set both inside model and at the top level; set it only once"
            )
        data[key] = value


def _split_tools(
    data: dict[str, object],
    objects: dict[str, object],
    registry: AgentRegistry,
    *,
    has_backend: bool,
) -> None:
    default = ["code"] if has_backend else []
    names = _names("tools", data.pop("tools", default))
    builtin = [name for name in names if name in BUILTIN_NAMES or name in VOCABULARIES]
    known = (*registry.tools, *BUILTIN_NAMES, *VOCABULARIES)
    own = [name for name in names if name not in builtin or name in registry.tools]
    objects["tools"] = [_registered("tool", name, registry.tools, known) for name in own]
    builtin = [name for name in builtin if name not in registry.tools]
    if not has_backend:
        confined = {*tools_in_workspace(builtin)}
        left = [name for name in builtin if name not in VOCABULARIES and name not in confined]
        if len(left) < len(builtin):
            _LOG.warning("tools for files are not used without a backend")
        builtin = left
    if not any(name in builtin for name in (*_TODO, *VOCABULARIES)):
        builtin.append(_TODO[0])
    data["builtin_tools"] = builtin


def _registered(
    kind: str, name: str, found: Mapping[str, object], known: Iterable[str] = ()
) -> object:
    if name not in found:
        hint = nearest(name, tuple(known) or found)
        raise ConfigError(
            f"there is no {kind} {name!r:.80}; {hint}. Pass {kind}s of your own with "
            f"AgentOptions.from_file(…, registry=AgentRegistry({kind}s={{…}}))"
        )
    return found[name]


def _names(key: str, value: object) -> list[str]:
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, str) for item in items):
            return cast("list[str]", items)
    raise ConfigError(f"{key} must be a list of names; got {value!r:.80}")


def _paths(data: dict[str, object], key: str) -> list[str]:
    if key not in data:
        return []
    value = data.pop(key)
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        if table.keys() <= {"paths"}:
            return _names(f"{key}.paths", table.get("paths", []))
    raise ConfigError(f"{key} must be a table with the field paths; got {value!r:.80}")

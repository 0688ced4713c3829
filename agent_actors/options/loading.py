"""An agent's options from a file or from the environment, as plain fields.

Owns the forms (YAML, TOML, JSON, variables) and what is said of a mistake in them: where it stands,
which field, what was expected, and the nearest name. Knows nothing of what a field's value may be
beyond its form: the options judge that themselves, and `named` puts the file's name before it.

A file holds data: functions, tools and clients are passed beside it. Secrets need not stand in it:
`${NAME}` in the fields that say where requests go and by which key is taken from the environment.
Nowhere else, so that a system prompt that shows a shell script stays as it is, and shows nothing.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import attrs
import yaml

from agent_actors.domain.json import JsonValue, is_deeper, nests_deeper
from agent_actors.domain.limits import Prices, UsageLimits
from agent_actors.errors import ConfigError
from agent_actors.options.validation import KINDS, fault_of_keywords
from agent_actors.permissions import PermissionPolicy

ENV_PREFIX: Final = "AGENT_ACTORS_"
_OTHER_VARIABLES: Final = frozenset({f"{ENV_PREFIX}PROFILES"})
# Read where options are made, and not as fields: there they stand before the provider's own.
_READ_ELSEWHERE: Final = frozenset({"model", "base_url", "api_key"})

_LARGEST: Final = 2**18
"""Bytes of a file; one of options that is larger is another file."""

_DEEPEST: Final = 50
"""How deep the tables and lists of a file may be."""

_EXPANDED: Final = frozenset({"model", "base_url", "api_key", "headers"})
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")

_TABLES: Final[Mapping[str, type]] = {
    "limits": UsageLimits,
    "session_limits": UsageLimits,
    "prices": Prices,
    "permissions": PermissionPolicy,
}
_IN_CODE: Final = frozenset({"tools", "hooks", "can_use_tool", "http_client", "output_type"})
_PLAIN: Final = frozenset({*KINDS, *_TABLES, "provider", "stop", "cwd", "fallbacks"})
FIELDS: Final = _PLAIN | _IN_CODE
"""Every field of the options."""
# Fields of a policy that no file can hold.
_NOT_OF_A_POLICY: Final = frozenset({"above"})


def fields_of_file(
    path: str | os.PathLike[str],
    environ: Mapping[str, str],
    make: Callable[[dict[str, object]], object],
) -> dict[str, object]:
    """The fields that a file holds, as the options take them.

    Args:
        path: YAML (`.yaml`, `.yml`), TOML (`.toml`) or JSON (`.json`).
        environ: For `${NAME}`.
        make: Makes options of fields: for fallbacks that are tables.

    Raises:
        ConfigError: It cannot be read, is of another form, or has a field that there is none of or
            that no file can hold; names the file.
    """
    name = os.fspath(path)
    with named(name):
        table = _parsed(Path(name).suffix.lower(), _text(name))
        return _Reading(Path(name).parent, environ, make).fields(table)


@contextmanager
def named(name: str) -> Generator[None]:
    """What is wrong is said with this before it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _text(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(_LARGEST + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError("expected text in UTF-8, and it is none") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"it cannot be read: {why or type(error).__name__}") from error
    if len(content) > _LARGEST:
        raise ConfigError(f"expected at most {_LARGEST} bytes of options, and it has more")
    return text


def _parsed(suffix: str, text: str) -> dict[str, object]:
    read = _FORMS.get(suffix)
    if read is None:
        raise ConfigError(f"its name must end in {', '.join(_FORMS)}; got {suffix!r}")
    form = suffix.removeprefix(".").upper()
    try:
        found = read(text)
        if is_deeper(cast("JsonValue", found), _DEEPEST):
            raise ValueError(f"tables and lists are more than {_DEEPEST} deep")
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        # Only the reader of TOML recurses through text of unknown depth. It is written in Python:
        # there every interpreter enforces its recursion limit.
        told = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"no {form}: {told}") from error
    if found is None:  # YAML without anything in it
        return {}
    if not isinstance(found, dict):
        raise ConfigError(
            f"expected a table of fields, such as model and base_url; got {found!r:.80}"
        )
    return cast("dict[str, object]", found)


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML, in which a key that comes twice is a mistake."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"the key {key.value!r} comes twice")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _from_yaml(text: str) -> object:
    _check_events(yaml.parse(text, yaml.SafeLoader))
    return yaml.load(text, _StrictLoader)


def _check_events(events: Iterable[yaml.Event]) -> None:
    """Refuse what a few lines could make endless: time grows by the square of the depth."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases (*name) are not taken; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"tables and lists are more than {_DEEPEST} deep")


def _from_json(text: str) -> object:
    if nests_deeper(text, _DEEPEST):
        raise ValueError(f"tables and lists are more than {_DEEPEST} deep")
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} comes twice")
    return found


_FORMS: Final[Mapping[str, Callable[[str], object]]] = {
    ".yaml": _from_yaml,
    ".yml": _from_yaml,
    ".toml": tomllib.loads,
    ".json": _from_json,
}


@attrs.frozen
class _Reading:
    """One file on its way to fields."""

    folder: Path
    environ: Mapping[str, str]
    make: Callable[[dict[str, object]], object]

    def fields(self, table: Mapping[str, object]) -> dict[str, object]:
        for name in table:
            if name in _IN_CODE:
                raise ConfigError(
                    f"{name} holds objects of Python, which no file can; pass it beside the file, "
                    f"as in AgentOptions.from_file(…, {name}=…)"
                )
        fault = fault_of_keywords(table, _PLAIN)
        if fault:
            raise ConfigError(fault)
        return {name: self._value(name, value) for name, value in table.items()}

    def _value(self, name: str, value: object) -> object:
        if name in _EXPANDED:
            value = self._expanded(name, value)
        if name in _TABLES and isinstance(value, dict):
            return _made(_TABLES[name], name, cast("dict[str, object]", value))
        if name in {"limits", "session_limits", "prices"}:
            raise ConfigError(f"{name} must be a table; got {value!r:.80}")
        if name == "provider" and not isinstance(value, str):
            raise ConfigError(f"provider must be the name of a profile; got {value!r:.80}")
        if name == "cwd":
            if not isinstance(value, str):
                raise ConfigError(f"cwd must be a path; got {value!r:.80}")
            return self.folder / value
        if name == "fallbacks" and isinstance(value, list):
            return [self._fallback(one) for one in cast("list[object]", value)]
        return _unquoted(name, value)

    def _fallback(self, item: object) -> object:
        if isinstance(item, dict):
            with named("fallbacks"):
                return self.make(self.fields(cast("dict[str, object]", item)))
        return item

    def _expanded(self, name: str, value: object) -> object:
        if isinstance(value, dict):
            table = cast("dict[str, object]", value)
            return {key: self._expanded(f"{name}.{key}", one) for key, one in table.items()}
        if not isinstance(value, str):
            return value
        return _VARIABLE.sub(lambda found: self._variable(name, found[1]), value)

    def _variable(self, field: str, variable: str) -> str:
        value = self.environ.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"{field} is to come from the environment variable {variable!r}, which is not set"
            )
        return value


def _unquoted(name: str, value: object) -> object:
    """What some forms have no word for: `none` in TOML, `inf` in JSON."""
    types = KINDS[name][0] if name in KINDS else ()
    if str in types or not isinstance(value, str):
        return value
    if type(None) in types and value.lower() == "none":
        return None
    if float in types and value.lower() == "inf":
        return float("inf")
    return value


def _made(of: type, name: str, table: Mapping[str, object]) -> object:
    fields = {field.name for field in attrs.fields(of) if field.init} - _NOT_OF_A_POLICY
    fault = fault_of_keywords(table, fields)
    if fault:
        raise ConfigError(f"{name}: {fault}")
    build = cast("Callable[..., object]", of)
    try:
        return build(**table)
    except TypeError as error:  # a field that is needed is missing, or a value has no such shape
        raise ConfigError(f"{name}: {error}") from error


def fields_of_environ(environ: Mapping[str, str]) -> dict[str, object]:
    """The fields that the environment names, each as `AGENT_ACTORS_` and its name in capitals.

    A variable that is blank is not set. `model`, `base_url` and `api_key` are not among them: they
    are read wherever options are made.

    Raises:
        ConfigError: A value cannot be read as what its field holds, a field cannot be put into a
            variable, or a variable is nearly the name of a field; names the variable.
    """
    known = {f"{ENV_PREFIX}{name.upper()}": name for name in FIELDS}
    found: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX) or not text.strip():
            continue
        name = known.get(variable)
        if name is None:
            _check_other(variable)
        elif name not in _READ_ELSEWHERE:
            with named(variable):
                found[name] = _of_text(name, text.strip())
    return found


def _check_other(variable: str) -> None:
    # Others may have variables of this prefix; one that is nearly a field's is a slip of the pen.
    name = variable.removeprefix(ENV_PREFIX).lower()
    near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=_SLIP)
    if near and variable not in _OTHER_VARIABLES:
        meant = f"{ENV_PREFIX}{near[0].upper()}"
        raise ConfigError(f"{variable} is no option; did you mean {meant}?")


_SLIP: Final = 0.8
"""How near a variable's name must come to a field's to be taken for it, from 0 to 1."""

_SWITCHES: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _of_text(name: str, text: str) -> object:
    if name == "fallbacks":
        return [one.strip() for one in text.split(",") if one.strip()]
    if name in {"provider", "stop", "cwd", "permissions"}:
        return text
    types, kind = KINDS.get(name, ((), ""))
    if str in types:
        return text
    if type(None) in types and text.lower() == "none":
        return None
    if bool in types:
        switch = _SWITCHES.get(text.lower())
        if switch is None:
            raise ConfigError(f"{name} must be true or false; got {text!r:.80}")
        return switch
    if int not in types:
        raise ConfigError(
            f"{name} cannot be put into a variable; put it into a file, or pass it in code"
        )
    try:
        return _number(text, whole=float not in types)
    except ValueError:
        raise ConfigError(f"{name} must be {kind}; got {text!r:.80}") from None


def _number(text: str, *, whole: bool) -> float:
    try:
        return int(text)
    except ValueError:
        if whole:
            raise
        return float(text)

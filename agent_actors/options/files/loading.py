"""Loads an agent's options from a file or from the environment, as plain field values.

Reads YAML, TOML, JSON and environment variables. Errors name the file or the variable, the field,
the expected value and the most similar field name. The options themselves validate the values.

A file contains data; tools, functions and clients are passed in code. A file need not contain
secrets: in the fields for the endpoint and the key, `${NAME}` is replaced with the environment
variable. Other fields are used as written, so that a system prompt may contain a shell script.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import attrs
import cattrs
import yaml
from cattrs.gen import make_dict_structure_fn, override

from agent_actors.codec.yaml_text import MAX_DEPTH, load_yaml
from agent_actors.domain.json import JsonValue, is_deeper, nests_deeper
from agent_actors.domain.limits import Prices, UsageLimits
from agent_actors.errors import ConfigError
from agent_actors.options.field_types import FieldType
from agent_actors.options.files.agent_file import NO_REGISTRY, AgentRegistry, agent_table
from agent_actors.options.validation import find_keyword_error, other_names
from agent_actors.permissions import PermissionPolicy

ENV_PREFIX: Final = "AGENT_ACTORS_"
_OTHER_VARIABLES: Final = frozenset({f"{ENV_PREFIX}PROFILES"})
# These variables are read when options are created, where they take precedence over the provider's
# own variables.
_READ_ELSEWHERE: Final = frozenset({"model", "base_url", "api_key"})

_LARGEST: Final = 2**18
"""Maximum size of a file in bytes. A larger file cannot be an options file."""

_EXPANDED: Final = frozenset({"model", "base_url", "api_key", "headers", "mcp_servers"})
# Paths in a file are relative to the directory of the file.
_FOLDERS: Final = frozenset({"cwd", "project_dir", "claude_dir"})
_PATHS: Final = frozenset({"skill_paths", "memory_paths"})
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")

IN_CODE: Final[Mapping[str, bool]] = {"in_code": True}
"""The metadata of a field for Python objects, which neither a file nor a variable can set."""

_ANYTHING: Final = FieldType[object]((object,), "a value")


@attrs.frozen
class _Field:
    """The properties of an option field that loading uses."""

    kind: FieldType[object]
    in_code: bool

    @property
    def table(self) -> type | None:
        """The attrs class to which a table is converted; None for a plain value."""
        return next((cls for cls in self.kind.types if attrs.has(cls)), None)


def _fields(options: type) -> Mapping[str, _Field]:
    return {
        field.name: _Field(
            _ANYTHING if field.validator is None else cast("FieldType[object]", field.validator),
            in_code="in_code" in field.metadata,
        )
        for field in attrs.fields(options)
        if field.init
    }


def _table_converter() -> cattrs.Converter:
    """Return a converter for tables that rejects unknown keys and leaves values unchanged."""
    converter = cattrs.Converter(detailed_validation=False)

    def keep(value: object, _: object) -> object:
        return value

    for cls in (UsageLimits, Prices, PermissionPolicy):
        # `above` contains the policies of parent runs, which a file cannot specify.
        omitted = {"above": override(omit=True)} if cls is PermissionPolicy else {}
        kept = {
            field.name: override(struct_hook=keep)
            for field in attrs.fields(cls)
            if field.init and field.name not in omitted
        }
        # Type checkers treat the overrides as arguments of the function.
        make = cast("Callable[..., Callable[[object, object], object]]", make_dict_structure_fn)
        structure = make(cls, converter, _cattrs_forbid_extra_keys=True, **kept, **omitted)
        converter.register_structure_hook(cls, structure)
    return converter


_TABLES: Final = _table_converter()


def fields_of_file(
    path: str | os.PathLike[str],
    options: type,
    environ: Mapping[str, str],
    make: Callable[[dict[str, object]], object],
    registry: AgentRegistry = NO_REGISTRY,
) -> dict[str, object]:
    """Read the option fields from a file.

    Args:
        path: A YAML (`.yaml`, `.yml`), TOML (`.toml`) or JSON (`.json`) file.
        options: The class of the options, which defines the fields.
        environ: The variables for `${NAME}`.
        make: Creates options from fields; used for fallbacks that are tables.
        registry: The tools, hooks and providers that the file may name.

    Raises:
        ConfigError: The file cannot be read, has an invalid format, or has a field that is unknown
            or cannot be set in a file. The message names the file.
    """
    name = os.fspath(path)
    with named(name):
        table = _parsed(Path(name).suffix.lower(), _text(name))
        found = agent_table(table, registry)
        reading = _Reading(Path(name).parent, _fields(options), environ, make)
        return {**reading.values(found.data), **found.objects}


@contextmanager
def named(name: str) -> Generator[None]:
    """Add this name to the beginning of errors."""
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
        raise ConfigError("expected text in UTF-8, but the file is not UTF-8") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"the file cannot be read: {why or type(error).__name__}") from error
    if len(content) > _LARGEST:
        raise ConfigError(f"expected at most {_LARGEST} bytes of options, but the file has more")
    return text


def _parsed(suffix: str, text: str) -> dict[str, object]:
    read = _FORMS.get(suffix)
    if read is None:
        raise ConfigError(f"the file name must end in {', '.join(_FORMS)}; got {suffix!r}")
    form = suffix.removeprefix(".").upper()
    try:
        found = read(text)
        if is_deeper(cast("JsonValue", found), MAX_DEPTH):
            raise ValueError(f"tables and lists are nested more than {MAX_DEPTH} levels deep")
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        # Only the TOML parser can recurse to any depth. It is written in Python, and every
        # interpreter enforces its recursion limit for Python code.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(f"not valid {form}: {reason}") from error
    if found is None:  # an empty YAML document
        return {}
    if not isinstance(found, dict):
        raise ConfigError(
            f"expected a table of fields, such as model and base_url; got {found!r:.80}"
        )
    return cast("dict[str, object]", found)


def _from_json(text: str) -> object:
    if nests_deeper(text, MAX_DEPTH):
        raise ValueError(f"tables and lists are nested more than {MAX_DEPTH} levels deep")
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice")
    return found


_FORMS: Final[Mapping[str, Callable[[str], object]]] = {
    ".yaml": load_yaml,
    ".yml": load_yaml,
    ".toml": tomllib.loads,
    ".json": _from_json,
}


@attrs.frozen
class _Reading:
    """Converts one file to fields."""

    folder: Path
    fields: Mapping[str, _Field]
    environ: Mapping[str, str]
    make: Callable[[dict[str, object]], object]

    def values(self, table: Mapping[str, object]) -> dict[str, object]:
        for name in table:
            if name in self.fields and self.fields[name].in_code:
                raise ConfigError(
                    f"{name} takes Python objects, which a file cannot contain; pass it in "
                    f"code, as in AgentOptions.from_file(…, {name}=…)"
                )
        error = find_keyword_error(table, self._names_in_files())
        if error:
            raise ConfigError(error)
        return {name: self._value(name, value) for name, value in table.items()}

    def _names_in_files(self) -> list[str]:
        return [name for name, field in self.fields.items() if not field.in_code]

    def _value(self, name: str, value: object) -> object:
        field = self.fields[name]
        if name in _EXPANDED:
            value = self._expanded(name, value)
        if field.table is not None:
            if isinstance(value, dict):
                return _structured(field.table, name, cast("dict[str, object]", value))
            if not field.kind.takes_text:
                raise ConfigError(f"{name} must be a table; got {value!r:.80}")
        if name == "provider" and not isinstance(value, str):
            raise ConfigError(f"provider must be the name of a profile; got {value!r:.80}")
        if name in _FOLDERS:
            if not isinstance(value, str):
                raise ConfigError(f"{name} must be a path; got {value!r:.80}")
            return self.folder / value
        if name in _PATHS:
            return self._paths(name, value)
        if name == "workspace":
            return self._workspace(value)
        if name == "fallbacks" and isinstance(value, list):
            return [self._fallback(item) for item in cast("list[object]", value)]
        return _unquoted(field.kind, value)

    def _paths(self, name: str, value: object) -> list[Path]:
        found = [value] if isinstance(value, str) else value
        if isinstance(found, list):
            items = cast("list[object]", found)
            if all(isinstance(item, str) for item in items):
                return [self.folder / cast(str, item) for item in items]
        raise ConfigError(f"{name} must be a list of paths; got {value!r:.80}")

    def _workspace(self, value: object) -> object:
        if not isinstance(value, dict):
            raise ConfigError(
                f"workspace must be a table, such as {{type: local, root: .}}; got {value!r:.80}"
            )
        table = cast("dict[str, object]", value)
        root, mounts = table.get("root"), table.get("mounts")
        if isinstance(root, str):
            table = {**table, "root": self.folder / root}
        if isinstance(mounts, dict):
            found = cast("dict[str, object]", mounts)
            table = {**table, "mounts": {self.folder / path: to for path, to in found.items()}}
        return table

    def _fallback(self, item: object) -> object:
        if isinstance(item, dict):
            with named("fallbacks"):
                return self.make(self.values(cast("dict[str, object]", item)))
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
                f"{field} refers to the environment variable {variable!r}, which is not set"
            )
        return value


def _unquoted(field: FieldType[object], value: object) -> object:
    """Convert the strings `none` and `inf`, because TOML has no null and JSON has no infinity."""
    if str in field.types or not isinstance(value, str):
        return value
    if type(None) in field.types and value.lower() == "none":
        return None
    if float in field.types and value.lower() == "inf":
        return float("inf")
    return value


def _structured(cls: type, name: str, table: dict[str, object]) -> object:
    try:
        return cast(object, _TABLES.structure(table, cls))
    except cattrs.ForbiddenExtraKeysError as error:
        known = [field.name for field in attrs.fields(cls) if field.name != "above"]
        unknown = sorted(error.extra_fields, key=str)
        raise ConfigError(f"{name}: {find_keyword_error(unknown, known)}") from error
    except KeyError as error:
        raise ConfigError(f"{name}: the field {error.args[0]!r} is missing") from error
    except TypeError as error:  # a converter in the class rejected the value's shape
        raise ConfigError(f"{name}: {error}") from error


def fields_of_environ(environ: Mapping[str, str], options: type) -> dict[str, object]:
    """Return the fields set by variables: `AGENT_ACTORS_` and the field's name in upper case.

    A blank variable counts as not set. `model`, `base_url` and `api_key` are omitted: the options
    read these variables themselves.

    Raises:
        ConfigError: A value cannot be converted to the type of its field, variables cannot set the
            field, or a variable has almost the name of a field. The message names the variable.
    """
    fields = _fields(options)
    known = {f"{ENV_PREFIX}{name.upper()}": name for name in fields}
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENV_PREFIX) or not text.strip():
            continue
        name = known.get(variable)
        if name is None:
            _check_other(variable, fields)
        elif name not in _READ_ELSEWHERE:
            with named(variable):
                values[name] = _of_text(name, fields[name], text.strip())
    return values


def _check_other(variable: str, fields: Iterable[str]) -> None:
    # Other programs may use the prefix too, so unknown variables are ignored. A name that is almost
    # that of a field is considered a mistake, and so is the name that other packages use for a
    # field.
    name, known = variable.removeprefix(ENV_PREFIX).lower(), list(fields)
    near = other_names(name, known) or difflib.get_close_matches(name, known, n=1, cutoff=_SLIP)
    if near and variable not in _OTHER_VARIABLES:
        meant = " or ".join(f"{ENV_PREFIX}{field.upper()}" for field in near)
        raise ConfigError(f"{variable} is not an option; did you mean {meant}?")


_SLIP: Final = 0.8
"""The minimum similarity, from 0 to 1, at which a variable is considered a misspelled field name.
"""

_SWITCHES: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def _of_text(name: str, field: _Field, text: str) -> object:
    if name == "fallbacks":
        return [item.strip() for item in text.split(",") if item.strip()]
    types = field.kind.types
    if str in types or field.kind.takes_text:
        return text
    if type(None) in types and text.lower() == "none":
        return None
    if bool in types and not field.in_code:
        switch = _SWITCHES.get(text.lower())
        if switch is None:
            raise ConfigError(f"{name} must be true or false; got {text!r:.80}")
        return switch
    if int not in types:
        raise ConfigError(
            f"{name} cannot be set by a variable; set it in a file, or pass it in code"
        )
    try:
        return _number(text, integer=float not in types)
    except ValueError:
        raise ConfigError(f"{name} must be {field.kind.expected}; got {text!r:.80}") from None


def _number(text: str, *, integer: bool) -> float:
    try:
        return int(text)
    except ValueError:
        if integer:
            raise
        return float(text)

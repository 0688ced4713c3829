"""The profiles that are known: those of the package, and those of a user's own file.

Owns the form of the file (TOML) and what is told of a mistake in it: the file, the profile, the
field, what was expected, and the known name that is nearest. There is no registry: who reads a
file has its profiles, nobody else.
"""

import difflib
import functools
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.profiles.profile import ModelRule, ProviderProfile

T = TypeVar("T", ProviderProfile, ChatDialect)

Profiles: TypeAlias = Mapping[str, ProviderProfile]

PROFILES_ENV: Final = "AGENT_ACTORS_PROFILES"
"""The environment variable that names a file of the user's own."""

_OURS: Final = "profiles.toml"
_EXTENDS: Final = "extends"
_NAMES: Final = "names"

# What a field must be; the words stand in errors.
_KINDS: Final[Mapping[str, type]] = {
    "a text": str,
    "true or false": bool,
    "a list of texts": list,
    "a list of whole numbers": list,
    "a list of tables": list,
}


def _kind_of(field: "attrs.Attribute[object]") -> str:
    """What this field of a class holds, read from its default: each has one, but for names."""
    if field.name == "models":
        return "a list of tables"
    if field.name == "quirks":
        return "a list of whole numbers"
    if isinstance(field.default, bool):
        return "true or false"
    return "a list of texts" if isinstance(field.default, tuple | frozenset) else "a text"


_DIALECT: Final = {field.name: _kind_of(field) for field in attrs.fields(ChatDialect)}
_PROFILE: Final = {
    field.name: _kind_of(field)
    for field in attrs.fields(ProviderProfile)
    if field.name not in {"name", "dialect"}
}
_FIELDS: Final = {_EXTENDS: "a text", **_PROFILE, **_DIALECT}
_RULE_FIELDS: Final = {_NAMES: "a list of texts", **_DIALECT}


@functools.cache
def builtin_profiles() -> Profiles:
    """The profiles of the package."""
    text = resources.files("agent_actors.profiles").joinpath(_OURS).read_text("utf-8")
    return parse_profiles(text, source=_OURS, known={})


def load_profiles(path: str | os.PathLike[str]) -> Profiles:
    """Read a file of profiles; those of the package may be extended in it.

    Args:
        path: The file, in the form of the package's own `agent_actors/profiles/profiles.toml`.

    Returns:
        The file's own profiles, by name.

    Raises:
        ConfigError: It cannot be read, or holds a mistake.

    Example:
        ```python
        from agent_actors.model import load_profiles

        mine = load_profiles("profiles.toml")
        options = AgentOptions(model="qwen3", provider=mine["gateway"])
        ```
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigError(f"the file of profiles {os.fspath(path)!r}: {reason}") from error
    return _parsed(text, os.fspath(path))


@functools.lru_cache(maxsize=8)
def _parsed(text: str, source: str) -> Profiles:
    # Options are made many times over; the file is read each time, since it may have changed.
    return parse_profiles(text, source=source, known=builtin_profiles())


def known_profiles(environ: Mapping[str, str]) -> Profiles:
    """The package's profiles, and over them those of the file that `AGENT_ACTORS_PROFILES` names.

    Raises:
        ConfigError: That file cannot be read, or holds a mistake.
    """
    path = environ.get(PROFILES_ENV, "").strip()
    if not path:
        return builtin_profiles()
    try:
        return {**builtin_profiles(), **load_profiles(path)}
    except ConfigError as error:
        raise ConfigError(f"{error} (named by {PROFILES_ENV})") from error


def find_profile(name: str, profiles: Profiles) -> ProviderProfile:
    """The profile of this name.

    Raises:
        ConfigError: There is none; the nearest name is told.
    """
    profile = profiles.get(name)
    if profile is None:
        raise ConfigError(f"there is no provider profile {name!r}; {_nearest(name, profiles)}")
    return profile


def parse_profiles(text: str, *, source: str, known: Profiles) -> Profiles:
    """The profiles in a text.

    Args:
        text: TOML, one table each.
        source: What errors call the text.
        known: What its profiles may extend, beside those that stand before them.

    Raises:
        ConfigError: Naming the text, the profile and the field.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: no TOML: {error}") from error
    found: dict[str, ProviderProfile] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{source}: {name!r} must be a table that holds a profile, such as [{name}]; "
                f"got {table!r}"
            )
        try:
            found[name] = _profile(name, cast("dict[str, object]", table), {**known, **found})
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from error
    return found


def _profile(name: str, table: dict[str, object], known: Profiles) -> ProviderProfile:
    where = f"profile {name!r}"
    _check(table, _FIELDS, where)
    base = ProviderProfile(name=name)
    if _EXTENDS in table:
        extended = cast("str", table[_EXTENDS])
        if extended not in known:
            raise ConfigError(
                f"{where}: field {_EXTENDS} must name a profile that is known by then; "
                f"got {extended!r}; {_nearest(extended, known)}"
            )
        base = attrs.evolve(known[extended], name=name)
    dialect = _changed(base.dialect, table, where)
    fields = {field: value for field, value in table.items() if field in _PROFILE}
    rules = _rules(cast("list[object]", fields.pop("models", [])), dialect, where)
    # A rule of a profile that is extended stands as it is, behind the new ones.
    changes = {**fields, "dialect": dialect, "models": (*rules, *base.models)}
    return _evolved(base, changes)


def _rules(tables: Iterable[object], dialect: ChatDialect, where: str) -> list[ModelRule]:
    rules: list[ModelRule] = []
    for number, table in enumerate(tables, 1):
        inside = f"{where}: rule {number} of field models"
        if not isinstance(table, dict):
            raise ConfigError(f"{inside} must be a table with names; got {table!r}")
        rule = cast("dict[str, object]", table)
        _check(rule, _RULE_FIELDS, inside)
        names = cast("list[str]", rule.get(_NAMES, []))
        rules.append(ModelRule(names, _changed(dialect, rule, inside)))
    return rules


def _changed(dialect: ChatDialect, table: dict[str, object], where: str) -> ChatDialect:
    changes = {field: value for field, value in table.items() if field in _DIALECT}
    try:
        return _evolved(dialect, changes)
    except ConfigError as error:
        told = str(error).removeprefix("ChatDialect: ")
        raise ConfigError(f"{where}: field {told}") from error


def _evolved(value: T, changes: Mapping[str, object]) -> T:
    # `_check` has seen to the types of what stood in the file, which no type checker can follow.
    evolve = cast("Callable[..., T]", attrs.evolve)
    return evolve(value, **changes)


def _check(table: dict[str, object], fields: Mapping[str, str], where: str) -> None:
    for field, value in table.items():
        kind = fields.get(field)
        if kind is None:
            raise ConfigError(f"{where}: there is no field {field!r}; {_nearest(field, fields)}")
        if not _fits(value, kind):
            raise ConfigError(f"{where}: field {field} must be {kind}; got {value!r}")


def _fits(value: object, kind: str) -> bool:
    if type(value) is not _KINDS[kind]:
        return False
    if not isinstance(value, list):
        return True
    members = cast("list[object]", value)
    if kind == "a list of texts":
        return all(isinstance(one, str) for one in members)
    if kind == "a list of whole numbers":
        return all(type(one) is int for one in members)
    return True


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}Known: {', '.join(sorted(names))}"

"""The built-in profiles, and the profiles in a user's own file.

This module parses the file format (TOML) and reports mistakes in a file. An error names the file,
the profile, the field, the expected value and the most similar known name. There is no global
registry: only the caller that reads a file gets its profiles.
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
"""The environment variable that contains the path of a user's own profile file."""

_OURS: Final = "profiles.toml"
_EXTENDS: Final = "extends"
_NAMES: Final = "names"

# The Python types of field values, by their names in error messages.
_KINDS: Final[Mapping[str, type]] = {
    "a string": str,
    "an integer": int,
    "true or false": bool,
    "a list of strings": list,
    "a list of integers": list,
    "a list of tables": list,
    "a table of strings": dict,
}


def _kind_of(field: "attrs.Attribute[object]") -> str:
    """Return the type name of a field, derived from its default; only `names` has none."""
    if field.name == "models":
        return "a list of tables"
    if field.name == "quirks":
        return "a list of integers"
    if field.name == "model_names":
        return "a table of strings"
    if isinstance(field.default, bool):
        return "true or false"
    if isinstance(field.default, int):
        return "an integer"
    return "a list of strings" if isinstance(field.default, tuple | frozenset) else "a string"


_DIALECT: Final = {field.name: _kind_of(field) for field in attrs.fields(ChatDialect)}
_PROFILE: Final = {
    field.name: _kind_of(field)
    for field in attrs.fields(ProviderProfile)
    if field.name not in {"name", "dialect"}
}
_FIELDS: Final = {_EXTENDS: "a string", **_PROFILE, **_DIALECT}
_RULE_FIELDS: Final = {_NAMES: "a list of strings", **_DIALECT}


@functools.cache
def builtin_profiles() -> Profiles:
    """Return the profiles that are part of this package, by name."""
    text = resources.files("agent_actors.profiles").joinpath(_OURS).read_text("utf-8")
    return parse_profiles(text, source=_OURS, known={})


def load_profiles(path: str | os.PathLike[str]) -> Profiles:
    """Read a profile file, which may extend the built-in profiles.

    Args:
        path: The path of the file, which has the same format as the package's own
            `agent_actors/profiles/profiles.toml`.

    Returns:
        The file's own profiles, by name.

    Raises:
        ConfigError: The file cannot be read, or it contains a mistake.

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
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"the profile file {os.fspath(path)!r} cannot be read: {reason}"
        ) from error
    return _parsed(text, os.fspath(path))


@functools.lru_cache(maxsize=8)
def _parsed(text: str, source: str) -> Profiles:
    # Options are created often, so the result of parsing is cached. The file is read each time,
    # because it may have changed.
    return parse_profiles(text, source=source, known=builtin_profiles())


def known_profiles(environ: Mapping[str, str]) -> Profiles:
    """Return the built-in profiles, overridden by the file that `AGENT_ACTORS_PROFILES` names.

    Raises:
        ConfigError: The file cannot be read, or it contains a mistake.
    """
    path = environ.get(PROFILES_ENV, "").strip()
    if not path:
        return builtin_profiles()
    try:
        return {**builtin_profiles(), **load_profiles(path)}
    except ConfigError as error:
        raise ConfigError(f"{error} (named by {PROFILES_ENV})") from error


def find_profile(name: str, profiles: Profiles) -> ProviderProfile:
    """Return the profile with this name.

    Raises:
        ConfigError: There is no such profile; the error suggests the most similar name.
    """
    profile = profiles.get(name)
    if profile is None:
        raise ConfigError(f"there is no provider profile {name!r}; {_nearest(name, profiles)}")
    return profile


def parse_profiles(text: str, *, source: str, known: Profiles) -> Profiles:
    """Parse the profiles in a text.

    Args:
        text: TOML with one table per profile.
        source: The name of the text in errors.
        known: Profiles that can be extended, in addition to earlier profiles in the text.

    Raises:
        ConfigError: The text is invalid. The error names the text, the profile and the field.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: the text is not valid TOML: {error}") from error
    found: dict[str, ProviderProfile] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{source}: {name!r} must be a table with the fields of a profile, "
                f"such as [{name}]; got {table!r}"
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
                f"{where}: the field {_EXTENDS!r} must name a built-in or earlier profile; "
                f"got {extended!r}; {_nearest(extended, known)}"
            )
        base = attrs.evolve(known[extended], name=name)
    dialect = _changed(base.dialect, table, where)
    fields = {field: value for field, value in table.items() if field in _PROFILE}
    rules = _rules(cast("list[object]", fields.pop("models", [])), dialect, where)
    # The rules of the extended profile are inherited unchanged and follow the new rules.
    changes = {**fields, "dialect": dialect, "models": (*rules, *base.models)}
    return _evolved(base, changes)


def _rules(tables: Iterable[object], dialect: ChatDialect, where: str) -> list[ModelRule]:
    rules: list[ModelRule] = []
    for number, table in enumerate(tables, 1):
        inside = f"{where}: rule {number} in the field 'models'"
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
        reason = str(error).removeprefix("ChatDialect: ")
        raise ConfigError(f"{where}: {reason}") from error


def _evolved(value: T, changes: Mapping[str, object]) -> T:
    # `_check` has validated the types of the file's values, but a type checker cannot know that.
    evolve = cast("Callable[..., T]", attrs.evolve)
    return evolve(value, **changes)


def _check(table: dict[str, object], fields: Mapping[str, str], where: str) -> None:
    for field, value in table.items():
        kind = fields.get(field)
        if kind is None:
            raise ConfigError(f"{where}: unknown field {field!r}; {_nearest(field, fields)}")
        if not _fits(value, kind):
            raise ConfigError(f"{where}: the field {field!r} must be {kind}; got {value!r}")


def _fits(value: object, kind: str) -> bool:
    if type(value) is not _KINDS[kind]:
        return False
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return all(isinstance(item, str) for item in table.values())
    if not isinstance(value, list):
        return True
    members = cast("list[object]", value)
    if kind == "a list of strings":
        return all(isinstance(item, str) for item in members)
    if kind == "a list of integers":
        return all(type(item) is int for item in members)
    return True


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}Known: {', '.join(sorted(names))}"

"""The options that enable files of a project, and their conversion."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from agent_actors.domain.workspace.project import SETTING_SOURCES, SettingSource
from agent_actors.errors import ConfigError
from agent_actors.options.converters import as_items
from agent_actors.project.commands import Command
from agent_actors.project.skills import Skill

BrokenFiles: TypeAlias = Literal["skip", "refuse"]
"""The behavior for files of a project that cannot be used."""

PathLike: TypeAlias = str | os.PathLike[str]

_CONFIG_VARIABLE: Final = "CLAUDE_CONFIG_DIR"


def as_sources(value: str | Iterable[str]) -> tuple[SettingSource, ...]:
    """Return the groups of files, each once and in the order of `SETTING_SOURCES`.

    Raises:
        ConfigError: A group is unknown.
    """
    found = (value,) if isinstance(value, str) else as_items("setting_sources", "names", value)
    for item in found:
        if item not in SETTING_SOURCES:
            raise ConfigError(
                "AgentOptions: setting_sources must contain only "
                f"{', '.join(map(repr, SETTING_SOURCES))}; got {item!r:.80}"
            )
    return tuple(source for source in SETTING_SOURCES if source in found)


def as_directory(value: PathLike | None) -> Path | None:
    """Return a directory; None if none was passed."""
    try:
        return None if value is None else Path(value)
    except TypeError:
        raise ConfigError(f"AgentOptions: expected a path; got {value!r:.80}") from None


def as_skill_paths(value: PathLike | Iterable[PathLike]) -> tuple[Path, ...]:
    """Return the directories with skills, even if only a single one was passed."""
    return _paths("skill_paths", value)


def as_memory_paths(value: PathLike | Iterable[PathLike]) -> tuple[Path, ...]:
    """Return the memory files, even if only a single one was passed."""
    return _paths("memory_paths", value)


def as_skills(value: Skill | Iterable[Skill]) -> tuple[Skill, ...]:
    """Return the skills that are defined in code, even if only a single one was passed.

    Raises:
        ConfigError: An item is not a skill, or two skills have the same name.
    """
    found = (value,) if isinstance(value, Skill) else as_items("skills", "skills", value)
    names: set[str] = set()
    for item in found:
        if not isinstance(item, Skill):
            raise ConfigError(f"AgentOptions: skills must contain only Skill; got {item!r:.80}")
        if item.name in names:
            raise ConfigError(f"AgentOptions: two skills have the name {item.name!r}")
        names.add(item.name)
    return cast("tuple[Skill, ...]", found)


def as_commands(value: Command | Iterable[Command]) -> tuple[Command, ...]:
    """Return the commands that are defined in code, even if only a single one was passed.

    Raises:
        ConfigError: An item is not a command, or two commands have the same name.
    """
    found = (value,) if isinstance(value, Command) else as_items("commands", "commands", value)
    names: set[str] = set()
    for item in found:
        if not isinstance(item, Command):
            raise ConfigError(f"AgentOptions: commands must contain only Command; got {item!r:.80}")
        if item.name in names:
            raise ConfigError(f"AgentOptions: two commands have the name {item.name!r}")
        names.add(item.name)
    return cast("tuple[Command, ...]", found)


def user_directory() -> Path:
    """Return the directory with the user's settings."""
    configured = os.environ.get(_CONFIG_VARIABLE, "").strip()
    return Path(configured) if configured else Path("~/.claude").expanduser()


def _paths(name: str, value: PathLike | Iterable[PathLike]) -> tuple[Path, ...]:
    single = isinstance(value, str | os.PathLike)
    found = (value,) if single else as_items(name, "paths", value)
    for item in found:
        if not isinstance(item, str | os.PathLike):
            raise ConfigError(f"AgentOptions: {name} must contain only paths; got {item!r:.80}")
    return tuple(Path(cast("str", item)) for item in found)

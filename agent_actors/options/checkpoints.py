"""The option `AgentOptions.checkpoints`: copies of the workspace's files, for undo."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.options.validation import nearest


def default_directory() -> Path:
    """Return the directory for checkpoints in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        folder = Path(state) if state else Path.home() / ".local/state"
    except RuntimeError:
        raise ConfigError(
            "checkpoints: the user has no home directory; pass Checkpoints(directory=...)"
        ) from None
    return folder / "agent-actors" / "checkpoints"


def _as_directory(value: str | os.PathLike[str] | None) -> Path:
    try:
        return default_directory() if value is None else Path(value).absolute()
    except TypeError:
        raise ConfigError(f"Checkpoints: directory must be a path; got {value!r:.80}") from None


@attrs.frozen(kw_only=True)
class Checkpoints:
    """The directory and the limits of checkpoints.

    Attributes:
        directory: The directory for the copies, which must be outside the workspace. Sessions and
            processes can share it. The default is in the user's state folder.
        max_files: Maximum number of files, symlinks and directories that a checkpoint covers.
        max_file_bytes: Maximum size of a file that is copied, in bytes.
        max_bytes: Maximum size of the directory, in bytes. If it is full, the oldest checkpoints
            are removed.

    Raises:
        ConfigError: A field is not valid.
    """

    directory: Path = attrs.field(default=None, converter=_as_directory)
    max_files: int = 20_000
    max_file_bytes: int = 10_000_000
    max_bytes: int = 1_000_000_000

    def __attrs_post_init__(self) -> None:
        for name in ("max_files", "max_file_bytes", "max_bytes"):
            value: object = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    f"Checkpoints: {name} must be an integer of at least 1; got {value!r:.80}"
                )


def as_checkpoints(value: object) -> Checkpoints | None:
    """Return the option, created from its short forms if necessary.

    Raises:
        ConfigError: The value is not valid.
    """
    if value is None or value is False:
        return None
    if isinstance(value, Checkpoints):
        return value
    if value is True:
        return Checkpoints()
    if isinstance(value, str | os.PathLike):
        return Checkpoints(directory=cast("Path", value))
    if isinstance(value, Mapping):
        table = {str(name): one for name, one in cast("Mapping[object, object]", value).items()}
        known = [field.name for field in attrs.fields(Checkpoints)]
        for name in table:
            if name not in known:
                raise ConfigError(
                    f"AgentOptions: checkpoints has no field {name!r}; {nearest(name, known)}"
                )
        return cast("Callable[..., Checkpoints]", Checkpoints)(**table)
    raise ConfigError(
        "AgentOptions: checkpoints must be True, False, a directory, a table or Checkpoints; got "
        f"{value!r:.80}"
    )

"""Reads the agent of `--agent`, whose fields the other options of the command replace."""

import math
from typing import Unpack, cast

from agent_actors import AgentOptions
from agent_actors.options.agent_options import OptionFields
from agent_actors.profiles.resolve import NO_API_KEY


def agent_from(path: str, **fields: Unpack[OptionFields]) -> AgentOptions:
    """Return the agent in a file, or the agent that the command line describes.

    Args:
        path: The file; empty for none.
        **fields: The fields from the command line. With a file, those that have the value for "not
            passed" do not replace the fields of the file.

    Raises:
        ConfigError: The file or a field is not valid.
    """
    if not path:
        return AgentOptions(**fields)
    passed = {name: value for name, value in fields.items() if _is_passed(value)}
    return AgentOptions.from_file(path, **cast(OptionFields, passed))


def _is_passed(value: object) -> bool:
    return value is not None and value not in ((), math.inf, "", NO_API_KEY)

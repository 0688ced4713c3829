"""The environment variables of commands: an allow-list, so that no secret is among them."""

import os
import re
from collections.abc import Mapping
from typing import Final

SANDBOX_HOME: Final = "/sandbox"
SANDBOX_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

# Locale variables are all harmless: LC_ALL, LC_CTYPE and others.
_ALLOWED: Final = re.compile(r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR")
_ALLOWED_IN_SANDBOX: Final = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|TZ")


def local_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a command that is not confined.

    Args:
        extra: Additional variables, which replace those of this process.
    """
    kept = {name: value for name, value in os.environ.items() if _ALLOWED.fullmatch(name)}
    return {"TERM": "dumb", **kept, **extra}


def sandbox_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a command in a sandbox, which has a home directory of its own."""
    kept = {name: text for name, text in os.environ.items() if _ALLOWED_IN_SANDBOX.fullmatch(name)}
    own = {"PATH": SANDBOX_PATH, "HOME": SANDBOX_HOME, "USER": "agent", "TMPDIR": "/tmp"}
    return {"TERM": "dumb", **kept, **own, **extra}

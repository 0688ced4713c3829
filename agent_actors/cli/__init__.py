"""The command line: `agent-actors`, also as `python -m agent_actors`.

It stands on the public face of the runtime and needs the extra `cli`, which it says, in one line,
where that is missing.
"""

import sys
from collections.abc import Sequence
from typing import Final

_EXTRA: Final = frozenset({"cyclopts", "rich", "prompt_toolkit"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: What stands after the program's name; None: what it was started with.

    Returns:
        The exit status: 0; 1 if the work failed; 2 if it was called wrongly; 130 after Ctrl-C;
        141 if whoever reads its output has gone.
    """
    try:
        from agent_actors.cli.app import dispatch  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"error: agent-actors needs {error.name}; "
            "install the command line with: pip install 'agent-actors[cli]'\n"
        )
        return 1
    return dispatch(sys.argv[1:] if arguments is None else arguments)

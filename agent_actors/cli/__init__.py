"""The command line: `agent-actors`, or `python -m agent_actors`.

It uses the public API of the runtime. It needs the extra `cli`. If the extra is missing, a one-line
error says how to install it.
"""

import sys
from collections.abc import Sequence
from typing import Final

_EXTRA: Final = frozenset({"cyclopts", "rich", "prompt_toolkit"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The arguments after the program's name; None: those of the process.

    Returns:
        The exit status: 0; 1 if the work failed; 2 after incorrect usage; 130 after Ctrl-C; 141 if
        the reader of the output has closed it.
    """
    try:
        from agent_actors.cli.app import dispatch  # noqa: PLC0415 - the import needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"error: agent-actors needs {error.name}; "
            "install the command line with: pip install 'agent-actors[cli]'\n"
        )
        return 1
    return dispatch(sys.argv[1:] if arguments is None else arguments)

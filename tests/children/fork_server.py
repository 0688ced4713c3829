"""Start programs as forks of a process that has already imported the package.

    python -m tests.children.fork_server FD

A short program spends most of its time on importing the command line. This process imports it once,
and then starts each program as a fork of itself. A fork is a separate process with the standard
streams, the environment, the working directory and the arguments that the request names. The
interpreter ends it as it ends any program. `tests/program_helpers.py` sends the requests through
the socket FD.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import termios
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

import coverage

# The command line, and the modules that it imports late. When Hypothesis is imported, it looks for
# references that the collector does not report in a fork.
PRELOADED: Final = (
    "agent_actors.cli.app",
    "agent_actors.cli.chat.terminal.editor",
    "agent_actors.cli.chat.terminal.rich_view",
    "agent_actors.cli.chat.terminal.screen",
    "agent_actors.cli.chat.user_files",
    "hypothesis",
)
# Bytes of a request, which is mostly the environment.
REQUEST_SIZE: Final = 1 << 20
# Requests pass stdin, stdout, stderr, and a socket for the process id and the exit status.
DESCRIPTORS: Final = 4
# Above every descriptor that this process opens.
_HIGHEST: Final = 1024


class Request(TypedDict):
    """A program to start.

    Attributes:
        arguments: The arguments of the interpreter: `-W error` if wanted, then `-m` and a module,
            `-c` and code, or a path, then the arguments of the program.
        environment: The environment variables.
        folder: The working directory.
        terminal: True makes the terminal on stdin the controlling terminal.
    """

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    terminal: bool


def serve(control: socket.socket) -> tuple[Request, list[int]] | None:
    """Start a fork for each request, and report its end, until the other end of `control` closes.

    Returns:
        In a fork: the request and its descriptors. In the server: None.
    """
    poll = select.poll()
    poll.register(control, select.POLLIN)
    forks: dict[int, tuple[int, int]] = {}  # by the descriptor of the process: id, status socket
    while True:
        for ready, _ in poll.poll():
            if ready in forks:
                poll.unregister(ready)
                pid, status = forks.pop(ready)
                os.close(ready)
                _, ended = os.waitpid(pid, 0)
                _report(status, os.waitstatus_to_exitcode(ended))
                os.close(status)
                continue
            data, descriptors, _, _ = socket.recv_fds(control, REQUEST_SIZE, DESCRIPTORS)
            if not data:
                for pid, _ in forks.values():
                    os.kill(pid, signal.SIGKILL)
                return None
            pid = os.fork()
            if pid == 0:
                control.detach()
                return json.loads(data), descriptors
            *streams, status = descriptors
            for stream in streams:
                os.close(stream)
            _report(status, pid)
            process = os.pidfd_open(pid)
            forks[process] = pid, status
            poll.register(process, select.POLLIN)


def _report(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test has ended without waiting
        os.write(status, struct.pack("i", number))


def adopt(request: Request, descriptors: list[int]) -> None:
    """Take over the streams, the environment and the working directory of the request."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, _HIGHEST)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # As the interpreter opens them.
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    encoding, errors = encoding or "utf-8", errors or "strict"
    stream = partial(open, encoding=encoding, newline="\n", closefd=False)
    sys.stdin = stream(0, errors=errors)
    sys.stdout = stream(1, "w", errors=errors)
    sys.stderr = stream(2, "w", buffering=1, errors="backslashreplace")


def execute(arguments: Sequence[str], installed: Sequence[str]) -> None:
    """Execute a program as `__main__`, as the interpreter does.

    Args:
        arguments: The arguments of the interpreter.
        installed: The import path of installed modules.
    """
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        arguments = arguments[2:]
    first = Path.cwd() if arguments[0] in {"-m", "-c"} else Path(arguments[0]).parent
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [str(first), *filter(None, added), *installed]
    if "COVERAGE_PROCESS_CONFIG" in os.environ:
        coverage.process_startup()
    match arguments:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [path, *rest]:
            sys.argv = [path, *rest]
            runpy.run_path(path, run_name="__main__")
        case _:
            raise ValueError("expected the arguments of a program; got none")


def end_early(statuses: Sequence[int]) -> None:
    """End the process without clearing the modules, which would take longer than most programs.

    Args:
        statuses: The exit status of the program; empty if the interpreter must end the process.
    """
    gc.collect()  # reports resources that the program has not released
    with contextlib.suppress(OSError, ValueError):  # the interpreter reports these errors
        sys.stdout.flush()
        sys.stderr.flush()
        for status in statuses:
            os._exit(status)


def main(descriptor: int) -> None:
    """Serve requests. In each fork, execute the requested program."""
    statuses: list[int] = []
    atexit.register(end_early, statuses)  # runs after all functions that are registered later
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal is for the tests
    installed = sys.path[1 + len(os.environ["PYTHONPATH"].split(os.pathsep)) :]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in PRELOADED:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the forks do not examine these objects
    received = serve(socket.socket(fileno=descriptor))
    if received is None:
        statuses.append(0)
        return
    adopt(*received)
    try:
        execute(received[0]["arguments"], installed)
    except SystemExit as ending:
        match ending.code:
            case None | int():
                statuses.append(ending.code or 0)
            case _:  # the interpreter prints it
                statuses.append(1)
        raise
    except Exception:
        statuses.append(1)  # the interpreter prints the traceback
        raise
    statuses.append(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))

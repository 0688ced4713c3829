"""The search engine for installations without ripgrep: Python's `re` in a separate process."""

import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from agent_actors.domain.workspace.files import GrepQuery
from agent_actors.errors import WorkspaceError
from agent_actors.toolbox.workspace.local.failures import Check
from agent_actors.toolbox.workspace.local.patterns import invalid_pattern
from agent_actors.toolbox.workspace.local.search import matcher

# Milliseconds between two checks for a cancellation while the matcher is working.
_POLL: Final = 20


class MatcherTimeout(Exception):
    """The deadline passed while the matcher was working."""


class Matcher:
    """A running matcher; see `matcher`.

    Args:
        process: The process.
        deadline: The time, by `time.monotonic`, when the search ends.
        check: Raises if the operation has been cancelled.
    """

    def __init__(self, process: subprocess.Popen[bytes], deadline: float, check: Check) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = process.stdout
        self._deadline = deadline
        self._check = check

    def prepare(self, query: GrepQuery) -> None:
        """Send the query.

        Raises:
            WorkspaceError: The regular expression is not valid (reason `invalid`).
            MatcherTimeout: The deadline passed.
        """
        wanted = {
            "pattern": query.pattern,
            "ignore_case": query.ignore_case,
            "multiline": query.multiline,
            "limit": query.limit + 1,
        }
        answer = self._ask(msgspec.json.encode(wanted) + b"\n")
        error = msgspec.json.decode(answer, type=dict[str, str]).get("error")
        if error is not None:
            raise invalid_pattern(query.pattern, error)

    def lines(self, data: bytes) -> list[int]:
        """Return the numbers of the matching lines of a file.

        Raises:
            MatcherTimeout: The deadline passed.
        """
        answer = self._ask(len(data).to_bytes(8, "big") + data)
        return msgspec.json.decode(answer, type=list[int])

    def _ask(self, request: bytes) -> bytes:
        try:
            # The matcher reads a request completely before it works on it.
            self._input.write(request)
            self._input.flush()
            answer = self._read_line()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise WorkspaceError("the process that matches lines has ended", reason="failed")
        return answer

    def _read_line(self) -> bytes:
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        while not poll.poll(_POLL):
            self._check()
            if time.monotonic() > self._deadline:
                raise MatcherTimeout
        return self._output.readline()


@contextmanager
def open_matcher(query: GrepQuery, deadline: float, check: Check) -> Generator[Matcher]:
    """Run a matcher for the duration of the block; it is killed at the end.

    Raises:
        WorkspaceError: This program does not know its interpreter (reason `unavailable`), or the
            regular expression is not valid (reason `invalid`).
        MatcherTimeout: The deadline passed.
    """
    if not sys.executable:
        raise WorkspaceError(
            "searching without ripgrep needs a Python interpreter to start; install the program rg "
            "with `pip install agent-actors[tools]`",
            reason="unavailable",
        )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(matcher.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
    ) as process:
        try:
            running = Matcher(process, deadline, check)
            running.prepare(query)
            yield running
        finally:
            process.kill()

"""A chat at a terminal, with the program in its own process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agent_actors.testing import ScriptedEndpoint
from scripts.pseudo_terminal import Session, in_terminal, start_interpreter
from tests import program_helpers
from tests.cli.helpers import PATIENCE, PROGRAM, at, environment


@asynccontextmanager
async def chatting(
    endpoint: ScriptedEndpoint,
    tmp_path: Path,
    *arguments: str,
    width: int = 80,
    height: int = 24,
    term: str = "xterm-256color",
    cwd: Path | None = None,
    fresh: bool = False,
) -> AsyncGenerator[Session]:
    """Start `agent-actors chat` in a terminal, and wait for its prompt.

    With `fresh=True`, a new interpreter is started instead of a fork.
    """
    start = start_interpreter if fresh else program_helpers.start_in_terminal
    env = environment({"TERM": term, "XDG_STATE_HOME": str(tmp_path), "LANG": "C.UTF-8"})
    command = [*PROGRAM, "chat", *at(endpoint), *arguments]
    async with in_terminal(
        command, env, width=width, height=height, cwd=cwd, start=start
    ) as session:
        with trio.move_on_after(PATIENCE) as patience:
            await session.until_true(lambda: prompts(session) == 1)
            yield session
        assert not patience.cancelled_caught, f"it showed:\n{session.screen.text}"


def prompts(session: Session) -> int:
    """Return how many prompts the terminal shows, including those with typed text."""
    return sum(line == ">" or line.startswith("> ") for line in session.screen.text.split("\n"))


async def next_prompt(session: Session) -> None:
    """Wait for an empty prompt in the last line."""
    await session.until_true(lambda: session.screen.text.split("\n")[-1] == ">")

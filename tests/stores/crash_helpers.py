"""Kill a process that drives many sessions, repeatedly, and check the remaining files.

    python -m tests.stores.crash_helpers 500

prints the table for both stores on disk. A nursery process imports everything once and forks a
child for each life. The child runs 50 sessions with tools and writes a line for each record that
it receives; it receives a record only after the commit. After enough lines, the child is killed.
Then its store is opened in this process. All acknowledged records must be in their places, all
further records must be complete, and each session must be usable.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.abc import SessionStore
from agent_actors.domain.events import Event
from agent_actors.domain.model import ModelRequest
from agent_actors.sessions import fold
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel, Turn, call, interleave, say
from tests.runs.helpers import check_history

SESSIONS: Final = 50
# The greatest number of records that a child acknowledges before it is killed.
LONGEST_LIFE: Final = 600
# The greatest number of records that an append holds which is in progress at the time of the kill.
IN_FLIGHT: Final = 12
# Number of lives that share one store before the next begins with an empty one.
LIVES: Final = 25
# Seconds for a child to start, and to acknowledge its records.
PATIENCE: Final = 60.0

STORES: Final[dict[str, Callable[[Path], SessionStore]]] = {
    "SqliteStore": SqliteStore,
    "JsonlStore": JsonlStore,
}


@attrs.define
class Tally:
    """The results of a series of kills.

    Attributes:
        kills: Number of children that were killed.
        acknowledged: Number of records that the children received.
        kept: Number of complete records in the store that no child received.
        lost: Number of records that a child received and that are gone.
        invalid: Sessions whose log or history is invalid, or that could not be used again.
    """

    kills: int = 0
    acknowledged: int = 0
    kept: int = 0
    lost: int = 0
    invalid: list[str] = attrs.field(factory=list[str])

    def line(self, store: str) -> str:
        """Return a row of the table."""
        return (
            f"{store:12} kills {self.kills:4}   acknowledged {self.acknowledged:7,}   "
            f"lost {self.lost}   invalid {len(self.invalid)}   "
            f"kept beyond what was acknowledged {self.kept:,}"
        )


# The child.


@tool
async def slow(pause: float) -> str:
    """Take a while.

    Args:
        pause: Seconds.
    """
    await trio.sleep(pause)
    return "slow"


@tool
def quick() -> str:
    """Take no time, in a thread."""
    return "quick"


def _turn(request: ModelRequest) -> Turn:
    last = request.messages.last()
    if last is not None and last.role == "user":
        pause = random.random() / 200
        return [say("Let me look."), interleave(call("slow", {"pause": pause}), call("quick"))]
    return "It rains."


def _options() -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(_turn), tools=[slow, quick])


async def live(store: SessionStore, acknowledge: Callable[[str], None]) -> None:
    """Drive the sessions forever."""
    options = _options()

    async def drive(session_id: str) -> None:
        while True:
            async with runtime.stream("go", options, session_id=session_id) as events:
                async for event in events:
                    if event.seq is not None:
                        acknowledge(f"{session_id} {event.seq} {event.id}\n")

    async with open_runtime(store=store) as runtime, trio.open_nursery() as nursery:
        for number in range(SESSIONS):
            nursery.start_soon(drive, f"s{number}")


def nursery_process() -> None:
    """Fork a child for each line `<store> <path> <acknowledged>`; print its id and exit code."""
    for line in sys.stdin:
        kind, path, acknowledged = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            _be_a_child(STORES[kind](Path(path)), acknowledged)
        _print_line(child)
        _print_line(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _be_a_child(store: SessionStore, acknowledged: str) -> None:
    os.dup2(os.open(f"{acknowledged}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    shown = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def acknowledge(text: str) -> None:
        os.write(shown, text.encode())

    try:
        trio.run(live, store, acknowledge)
    finally:
        os._exit(1)  # not reached before it is killed


def _print_line(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


# The parent.


@attrs.define(eq=False)
class Killer:
    """The nursery process, as seen by its parent."""

    process: "subprocess.Popen[str]"

    def life(self, kind: str, path: Path, acknowledged: Path, records: int) -> list[str]:
        """Run a child until it has received `records` records, kill it, and return its lines."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{kind}\t{path}\t{acknowledged}\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        deadline = time.monotonic() + PATIENCE
        # A line has at least 40 bytes; the exact time of the kill is left to chance.
        while not acknowledged.exists() or acknowledged.stat().st_size < records * 40:
            time.sleep(0.001)
            if time.monotonic() > deadline:
                break
        os.kill(child, signal.SIGKILL)
        status = int(self.process.stdout.readline())
        errors = Path(f"{acknowledged}.err").read_text(encoding="utf-8")
        assert status == -signal.SIGKILL, f"it ended before it was killed:\n{errors}"
        text = acknowledged.read_text(encoding="utf-8") if acknowledged.exists() else ""
        acknowledged.unlink(missing_ok=True)
        # The kill can tear the last line, if the line crosses a page of the file.
        return text[: text.rfind("\n") + 1].splitlines()


@contextmanager
def killer() -> Generator[Killer]:
    """Start the nursery process, and end it on leaving."""
    command = [sys.executable, "-m", "tests.stores.crash_helpers"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdin is not None
        try:
            yield Killer(process)
        finally:
            process.stdin.close()


async def check_sessions(store: SessionStore, known: dict[str, list[str]], tally: Tally) -> None:
    """Open every session, compare its records with those received, and run it again."""
    options = _options()

    async def check_session(session_id: str) -> None:
        shown = known.setdefault(session_id, [])
        try:
            records = [
                record for record in await store.load(session_id) if isinstance(record, Event)
            ]
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            times = [record.ts for record in records]
            assert times == sorted(times)
            ids = [record.id for record in records]
            tally.lost += sum(1 for one, other in zip(shown, ids, strict=False) if one != other)
            tally.lost += max(0, len(shown) - len(ids))
            beyond = max(0, len(ids) - len(shown))
            tally.kept += beyond
            assert beyond <= IN_FLIGHT, f"{beyond} more records than were received"
            check_history(fold(records).history())
            result = await runtime.run("go", options, session_id=session_id)
            assert result.text == "It rains."
            check_history(result.messages)
            after = await store.load(session_id)
            assert list(after[: len(records)]) == records
            known[session_id] = [record.id for record in after if isinstance(record, Event)]
        except Exception as error:  # noqa: BLE001 - counted, and shown by the test
            tally.invalid.append(f"{session_id}: {type(error).__name__}: {error}")

    async with open_runtime(store=store) as runtime, trio.open_nursery() as nursery:
        for number in range(SESSIONS):
            nursery.start_soon(check_session, f"s{number}")


def kill_often(kind: str, kills: int, folder: Path, seed: int) -> Tally:
    """Kill `kills` children, and check the store after each."""
    tally, chance = Tally(), random.Random(seed)
    known: dict[str, list[str]] = {}
    with killer() as parent:
        for number in range(kills):
            path = folder / f"{kind}-{number // LIVES}"
            if number % LIVES == 0:
                known.clear()
                shutil.rmtree(folder / f"{kind}-{number // LIVES - 1}", ignore_errors=True)
            lines = parent.life(
                kind, path / "store", folder / "acknowledged", chance.randrange(LONGEST_LIFE)
            )
            for line in lines:
                session_id, seq, event_id = line.split(" ")
                shown = known.setdefault(session_id, [])
                # `look` has already checked the records that an earlier child wrote but did not
                # receive.
                assert int(seq) == len(shown) + 1, f"{line} was received after {len(shown)}"
                shown.append(event_id)
            tally.kills += 1
            tally.acknowledged += len(lines)
            trio.run(check_sessions, STORES[kind](path / "store"), known, tally)
            if tally.lost or tally.invalid:
                break
    return tally


def main() -> None:
    """Be the nursery process; with a number as argument, print the table."""
    if len(sys.argv) == 1:
        nursery_process()
        return
    for kind in STORES:
        with tempfile.TemporaryDirectory() as folder:
            _print_line(kill_often(kind, int(sys.argv[1]), Path(folder), 1).line(kind))


if __name__ == "__main__":
    main()

"""Interrupt a program at each line that it executes, and check what remains each time.

    python -m tests.runtime.interrupt_helpers SqliteStore 1 10

sends a real SIGINT at line 1, 11, 21, … of the package's code and of the program's tools, hooks and
observers, until the program ends before the line is reached. Trio's own signal handler handles the
signal. The command prints the number of interrupts and a line for each failure.
"""

import faulthandler
import linecache
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import attrs
import trio
import trio.lowlevel

import agent_actors
from agent_actors import AgentOptions, Client, Hook, HookContext, open_runtime, tool
from agent_actors.abc import SessionStore
from agent_actors.domain.events import Event
from agent_actors.hooks.events import SessionEndEvent, SessionStartEvent
from agent_actors.sessions import fold
from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, demo_script, reply
from tests.conventions.leaks import Snapshot
from tests.runs.helpers import check_history, check_records
from tests.stores.crash_helpers import STORES

PACKAGE: Final = str(Path(agent_actors.__file__).parent) + os.sep
# The scripted endpoint runs in another thread and is not part of the program.
TESTING: Final = str(Path(PACKAGE) / "testing") + os.sep
# Seconds after which an interrupted program counts as hanging.
PATIENCE: Final = 60.0
# Seconds that a store's thread may take to close its files.
GRACE: Final = 2.0
_FDS: Final = Path("/proc/self/fd")


@attrs.define(eq=False)
class Program(Hook):
    """A run with two tools on a store. The program keeps the ids of the records that it receives.

    Attributes:
        store: The store.
        base_url: The URL of the endpoint.
        shown: The ids of the records that the program received; they were committed before.
        begun: Sessions whose `session_start` hook has run.
        ended: Sessions whose `session_end` hook has run.
    """

    store: SessionStore
    base_url: str
    shown: list[str] = attrs.field(factory=list[str])
    begun: list[str] = attrs.field(factory=list[str])
    ended: list[str] = attrs.field(factory=list[str])

    async def session_start(self, event: SessionStartEvent, ctx: HookContext) -> None:
        """Record the session."""
        self.begun.append(event.session_id)

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> None:
        """Record the session."""
        self.ended.append(event.session_id)

    async def observe(self, event: Event) -> None:
        """Observe an event."""
        await trio.lowlevel.checkpoint()

    def options(self) -> AgentOptions:
        """Return the agent."""
        return AgentOptions(
            model="m",
            base_url=self.base_url,
            api_key="k",
            tools=[look, think],
            auto_execute_tools=True,
            hooks=[self],
        )

    async def stream(self) -> None:
        """Read the events of one run."""
        async with open_runtime(store=self.store) as runtime:
            runtime.subscribe(self.observe)
            async with runtime.stream("go", self.options(), session_id="s") as events:
                async for event in events:
                    if event.seq is not None:
                        self.shown.append(event.id)

    async def client(self) -> None:
        """Run one turn of a client in the client's runtime, then query the runtime."""
        async with open_runtime(store=self.store) as runtime:
            async with Client(self.options(), runtime=runtime, session_id="s") as client:
                await client.query("go")
                async for _ in client.receive_messages():
                    pass
            await runtime.list_sessions()


@tool
async def look() -> str:
    """Pause briefly."""
    await trio.lowlevel.checkpoint()
    return "seen"


@tool
def think() -> str:
    """Return at once, in a thread."""
    return "thought"


USERS: Final = frozenset(
    function.__code__
    for function in (
        Program.session_start,
        Program.session_end,
        Program.observe,
        Program.stream,
        Program.client,
        look.handler,
    )
    if hasattr(function, "__code__")
)


@attrs.define(eq=False)
class Striker:
    """A tracer that sends SIGINT to this process at one of its lines.

    The exit of an `async with` block in user code is not a line that it strikes. Between the last
    statement of a block and the call of `__aexit__`, Python can raise `KeyboardInterrupt` without
    calling `__aexit__`. No library can prevent that: a nursery of trio fails in the same way.

    Args:
        at: The line, counted from 1.
    """

    at: int
    lines: int = 0
    where: str = ""
    _entered: set[tuple[FrameType, int]] = attrs.field(factory=set[tuple[FrameType, int]])

    def __call__(self, frame: FrameType, event: str, _: object) -> "Striker | None":
        """Count a line, and send SIGINT at line `at`."""
        if event == "call":
            name = frame.f_code.co_filename
            ours = name.startswith(PACKAGE) and not name.startswith(TESTING)
            return self if ours or frame.f_code in USERS else None
        if event == "line" and not self._leaves_block(frame):
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self

    def _leaves_block(self, frame: FrameType) -> bool:
        if frame.f_code not in USERS:
            return False
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not text.strip().startswith("async with"):
            return False
        place = (frame, frame.f_lineno)
        if place in self._entered:
            return True
        self._entered.add(place)
        return False


@contextmanager
def endpoint() -> Generator[str]:
    """Run a scripted endpoint in its own thread, and yield its base URL."""
    ready, urls = threading.Event(), list[str]()
    stop: list[Callable[[], None]] = []

    async def serve() -> None:
        async with ScriptedEndpoint(_answer) as served:
            urls.append(served.base_url)
            token, scope = trio.lowlevel.current_trio_token(), trio.CancelScope()
            stop.append(lambda: token.run_sync_soon(scope.cancel))
            ready.set()
            with scope:
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(serve,), name="endpoint")
    thread.start()
    try:
        ready.wait()
        yield urls[0]
    finally:
        stop[0]()
        thread.join()


def _answer(request: EndpointRequest) -> Reply:
    if request.last_content == "again":
        return reply("Fine.")
    return demo_script(2, tool_names=["look", "think"], deltas=3, every=0)(request)


def strike(kind: str, doing: str, striker: Striker, folder: Path, base_url: str) -> None:
    """Interrupt the program once, and check what remains.

    Raises:
        AssertionError: The program did not end cleanly, or something was lost or left behind.
    """
    store = STORES[kind](folder / "store")
    program = Program(store, base_url)
    before, files = Snapshot.take(), len(list(_FDS.iterdir()))
    raised: BaseException | None = None
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    try:
        sys.settrace(striker)
        trio.run(getattr(program, doing))
    except BaseException as error:  # noqa: ASYNC103, BLE001 - checked below
        raised = error
    finally:
        sys.settrace(None)
        faulthandler.cancel_dump_traceback_later()
    assert type(raised) is (KeyboardInterrupt if striker.where else type(None)), repr(raised)
    if "session_" not in striker.where:
        assert program.ended == program.begun, "session_end did not run"
    left = before.left_behind()
    assert not left, left
    # A store's thread closes its files, and the program does not wait for the thread.
    deadline = time.monotonic() + GRACE
    while len(list(_FDS.iterdir())) > files and time.monotonic() < deadline:
        time.sleep(0.001)
    assert len(list(_FDS.iterdir())) <= files, "a file is open"
    trio.run(_check, STORES[kind](folder / "store"), program)


async def _check(store: SessionStore, program: Program) -> None:
    async with open_runtime(store=store) as runtime:
        records = [record for record in await store.load("s") if isinstance(record, Event)]
        check_records(records)
        ids = [record.id for record in records]
        assert ids[: len(program.shown)] == program.shown, "a received record is gone"
        check_history(fold(records).history())
        options = attrs.evolve(program.options(), hooks=())
        assert (await runtime.run("again", options, session_id="s")).text == "Fine."


def sweep(kind: str, doing: str, first: int, step: int) -> tuple[int, list[str]]:
    """Interrupt the program at every `step`-th line.

    Returns:
        The number of interrupts, and the failures.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unraisable: list[str] = []
    sys.unraisablehook = lambda hook: unraisable.append(repr(hook.exc_value))
    warnings.simplefilter("error")
    strikes, failures = 0, list[str]()
    with endpoint() as base_url, tempfile.TemporaryDirectory() as root:
        at = 0
        while True:
            folder = Path(root) / str(at)
            folder.mkdir()
            striker = Striker(at)
            try:
                # The first pass interrupts nothing; it fills caches.
                strike(kind, doing, striker, folder, base_url)
                assert not unraisable, unraisable
            except Exception as error:  # noqa: BLE001 - reported
                failures.append(f"{at} ({striker.where}): {type(error).__name__}: {error}")
                unraisable.clear()
            shutil.rmtree(folder)
            if at and not striker.where:
                return strikes, failures
            strikes += bool(at)
            at = at + step if at else first


def main() -> None:
    """Run the sweep and print its results."""
    kind, doing, first, step = sys.argv[1:]
    strikes, failures = sweep(kind, doing, int(first), int(step))
    sys.stdout.write("".join(f"{line}\n" for line in (strikes, *failures)))


if __name__ == "__main__":
    main()

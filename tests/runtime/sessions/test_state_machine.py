"""Sessions match a simple model after any sequence of operations.

Two runtimes share a store on disk. A simulated crash leaves the files that the store has at that
time: they are copied while a run is in progress, and two new runtimes open the copy.
"""

import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

import attrs
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent_actors import AgentOptions, Messages, Runtime, open_runtime, tool
from agent_actors.errors import SessionExists, SessionUnknown
from agent_actors.sessions import UNFINISHED
from agent_actors.testing import ScriptedModel, Turn, call, hang
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import echo
from tests.runtime.sessions.helpers import DISK, when_free

T = TypeVar("T")
Said = tuple[str, ...]

names = st.sampled_from(["a", "b", "c"])
sides = st.integers(0, 1)
points = st.floats(0, 1)


@tool
async def hold() -> str:
    """Never return."""
    await trio.Event().wait()
    return "never"


@attrs.define
class Model:
    """The expected messages of a session, as of some of its records, including the last."""

    marks: list[tuple[int, Said]] = attrs.field(factory=lambda: [(0, ())])

    @property
    def said(self) -> Said:
        return self.marks[-1][1]

    def mark(self, point: float) -> tuple[int, Said]:
        return self.marks[int(point * (len(self.marks) - 1))]


class Loop:
    """A `trio.run` in its own thread, with two runtimes."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.root = Path(tempfile.mkdtemp(prefix="sessions-"))
        self._copies = 0
        self.path = self.root / "0" / "store"
        self.runtimes: list[Runtime] = []
        self._begun = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,))
        self._thread.start()
        assert self._begun.wait(30)

    def do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work in the loop, as soon as no other runtime holds the session."""
        return trio.from_thread.run(when_free, work, trio_token=self._token)

    def reopen(self) -> None:
        """Close both runtimes, and open two new ones on the current path."""
        self._begun.clear()
        trio.from_thread.run_sync(self._left.set, trio_token=self._token)
        assert self._begun.wait(30)

    def copy(self) -> None:
        """Copy the files as a crash would leave them now, and use the copy from here on."""
        self._copies += 1
        place = self.root / str(self._copies)
        # Copy the database before its log: data that is moved meanwhile is then in both.
        shutil.copytree(self.path.parent, place, copy_function=_copied, dirs_exist_ok=True)
        self.path = place / "store"

    def end(self) -> None:
        """Close everything."""
        self._kind = ""
        trio.from_thread.run_sync(self._left.set, trio_token=self._token)
        self._thread.join(30)
        assert not self._thread.is_alive()
        shutil.rmtree(self.root)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        while self._kind:
            make, path, self._left = DISK[self._kind], self.path, trio.Event()
            async with open_runtime(store=make(path)) as one, open_runtime(store=make(path)) as two:
                self.runtimes = [one, two]
                self._begun.set()
                await self._left.wait()
                check_quiet(one)
                check_quiet(two)


def _copied(source: str, target: str) -> None:
    if not source.endswith(("-shm", "-lock", ".lock")):
        shutil.copyfile(source, target)


def agent(*turns: Turn) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=[echo, hold])


class Sessions(RuleBasedStateMachine):
    """The rules of the state machine."""

    kind: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Model] = {}
        self.loop = Loop(self.kind)

    def teardown(self) -> None:
        self.loop.end()

    def after(self, name: str, side: int, said: Said, *, begins: bool = False) -> None:
        """Check that the record numbers have grown, and record the messages in the model."""
        info = self.loop.do(partial(self.loop.runtimes[side].sessions.info, name))
        assert info is not None
        model = Model() if begins else self.models.setdefault(name, Model())
        self.models[name] = model
        assert info.last_seq > model.marks[-1][0]
        model.marks.append((info.last_seq, said))

    def said(self, name: str) -> Said:
        return self.models[name].said if name in self.models else ()

    @rule(name=names, side=sides, text=st.sampled_from(["x", "y", "\u00e9\U0001f600"]))
    def append(self, name: str, side: int, text: str) -> None:
        sessions = self.loop.runtimes[side].sessions
        messages = Messages().user(text).assistant(text * 2)
        self.loop.do(partial(sessions.append, name, messages))
        self.after(name, side, (*self.said(name), text, text * 2))

    @rule(name=names, side=sides)
    def run(self, name: str, side: int) -> None:
        runtime = self.loop.runtimes[side]
        options = agent(call("echo", {"text": "a"}), "Done.")
        result = self.loop.do(partial(self._run, runtime, options, name))
        said = (*self.said(name), "Go.", "", "said a", "Done.")
        assert tuple(message.content for message in result) == said
        self.after(name, side, said)

    @staticmethod
    async def _run(runtime: Runtime, options: AgentOptions, name: str) -> Messages:
        # Create the run again for each attempt, because a refused run may be tried again.
        result = await runtime.run("Go.", options, session_id=name)
        check_history(result.messages)
        return result.messages

    @rule(name=names, side=sides)
    def run_that_is_left(self, name: str, side: int) -> None:
        options = agent(call("echo", {"text": "a"}), [hang()])
        self._leave(name, side, options, "tool.result", crash=False)
        self.after(name, side, (*self.said(name), "Go.", "", "said a"))

    @rule(name=names, side=sides)
    def crash(self, name: str, side: int) -> None:
        self._leave(name, side, agent(call("hold", {})), "tool.use", crash=True)
        self.loop.reopen()
        self.after(name, side, (*self.said(name), "Go.", "", UNFINISHED))

    def _leave(
        self, name: str, side: int, options: AgentOptions, last: str, *, crash: bool
    ) -> None:
        async def leave() -> None:
            runtime = self.loop.runtimes[side]
            async with runtime.stream("Go.", options, session_id=name) as events:
                async for event in events:
                    # Before its own calls, a run closes the calls that a crash left open.
                    if event.type == last and not getattr(event, "synthetic", False):
                        break
                if crash:
                    self.loop.copy()

        self.loop.do(leave)

    @rule(name=names, side=sides, point=points)
    def rewind(self, name: str, side: int, point: float) -> None:
        sessions = self.loop.runtimes[side].sessions
        if name not in self.models:
            with pytest.raises(SessionUnknown):
                self.loop.do(partial(sessions.rewind, name, 0))
            return
        seq, said = self.models[name].mark(point)
        self.loop.do(partial(sessions.rewind, name, seq))
        self.after(name, side, said)

    @rule(name=names, side=sides)
    def replace(self, name: str, side: int) -> None:
        sessions = self.loop.runtimes[side].sessions
        self.loop.do(partial(sessions.replace, name, Messages().user("Instead.")))
        self.after(name, side, ("Instead.",))

    @precondition(lambda self: self.models)
    @rule(data=st.data(), new=names, side=sides, point=points)
    def fork(self, data: st.DataObject, new: str, side: int, point: float) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        sessions = self.loop.runtimes[side].sessions
        seq, said = self.models[name].mark(point)
        if new in self.models:
            with pytest.raises(SessionExists):
                self.loop.do(partial(sessions.fork, name, max(seq, 1), new_id=new))
        elif seq:
            self.loop.do(partial(sessions.fork, name, seq, new_id=new))
            self.after(new, side, said, begins=True)

    @rule(name=names, side=sides)
    def delete(self, name: str, side: int) -> None:
        sessions = self.loop.runtimes[side].sessions
        assert self.loop.do(partial(sessions.delete, name)) == (name in self.models)
        self.models.pop(name, None)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), side=sides)
    def export_and_import(self, data: st.DataObject, side: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        sessions = self.loop.runtimes[side].sessions
        lines = self.loop.do(partial(sessions.export, name))
        assert self.loop.do(partial(sessions.delete, name))
        other = self.loop.runtimes[1 - side].sessions
        self.loop.do(partial(other.import_records, lines))
        self.after(name, side, self.said(name))

    @rule(side=sides)
    def evict(self, side: int) -> None:
        async def evict() -> None:
            log = self.loop.runtimes[side]._actors.log
            for loaded in tuple(log._loaded.values()):
                if log._is_idle(loaded):
                    log._evict(loaded)

        self.loop.do(evict)

    @rule()
    def reopen(self) -> None:
        self.loop.reopen()

    @invariant()
    def sessions_are_what_the_model_says(self) -> None:
        self.loop.do(partial(self._check, dict(self.models)))

    async def _check(self, models: dict[str, Model]) -> None:
        for runtime in self.loop.runtimes:
            page = await runtime.list_sessions()
            assert {info.session_id for info in page.sessions} == set(models)
            for name, model in models.items():
                history = await runtime.sessions.history(name)
                assert history is not None
                check_history(history)
                assert tuple(message.content for message in history) == model.said
                assert await runtime.sessions.check(name) == ()


# Each example opens stores and threads: few examples by default, more in the deep profile.
quick = settings(
    max_examples=max(8, settings().max_examples // 20),
    stateful_step_count=12,
    suppress_health_check=[HealthCheck.too_slow],
)


class SqliteSessions(Sessions):
    """The rules over `SqliteStore`."""

    kind = "SqliteStore"


class JsonlSessions(Sessions):
    """The rules over `JsonlStore`."""

    kind = "JsonlStore"


TestSqliteSessions = SqliteSessions.TestCase
TestSqliteSessions.settings = quick
TestJsonlSessions = JsonlSessions.TestCase
TestJsonlSessions.settings = quick

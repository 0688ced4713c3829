"""SessionResources: leases, waits for a close, limits, and the end of everything it owns."""

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import cast

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from agent_actors.abc import Workspace
from agent_actors.actors.resources.background_commands import (
    MAX_BUFFERED_BYTES,
    BackgroundCommand,
    command_text,
)
from agent_actors.actors.resources.session_resources import (
    KEPT_ENDED,
    WORKSPACE_TTL,
    SessionResources,
    WorkspaceLease,
)
from agent_actors.domain.events import (
    BackgroundEnded,
    BackgroundLost,
    BackgroundStarted,
    EventBuilder,
    EventScope,
)
from agent_actors.domain.ids import Uuid7Ids
from agent_actors.domain.run import RunInfo
from agent_actors.domain.workspace.background import BackgroundTask
from agent_actors.domain.workspace.processes import OutputStream, ProcessEnd, ProcessSpec
from agent_actors.errors import ConfigError, WorkspaceError
from agent_actors.options.workspace_config import WorkspaceConfig, WorkspaceSource, as_workspace
from agent_actors.testing.cancel import StepOutcome, cancel_at_every_step
from tests.actors.resources.helpers import FakeWorkspace

COMMAND = ProcessSpec(argv="serve")


def ignore(_stream: OutputStream, _data: bytes) -> None:
    """Ignore output."""


def fake_workspace(_config: WorkspaceConfig, _cwd: Path) -> Workspace:
    return FakeWorkspace()


@attrs.define(eq=False)
class World:
    """The actor under test, with every workspace that its factory made."""

    resources: SessionResources
    made: list[FakeWorkspace]
    close_seconds: float = 0.0

    def make(self, info: RunInfo) -> Workspace:
        del info
        self.made.append(FakeWorkspace(self.close_seconds))
        return self.made[-1]

    async def lease(
        self, session: str = "s", source: WorkspaceSource | None = None, owner: str = "session"
    ) -> WorkspaceLease:
        info = RunInfo(session, "r", "q", iteration=0, started_at=0.0)
        chosen = self.make if source is None else source
        return await self.resources.lease(
            chosen, info, Path("/cwd"), "runtime" if owner == "runtime" else "session"
        )


@asynccontextmanager
async def world(
    *,
    close_seconds: float = 0.0,
    make: Callable[[WorkspaceConfig, Path], Workspace] = fake_workspace,
    ttl: float = WORKSPACE_TTL,
    per_runtime: int = 64,
) -> AsyncGenerator[World]:
    ids = Uuid7Ids(lambda: 0.0, Random(0).getrandbits)
    resources = SessionResources(
        make, ids, lambda: 5.0, ttl=ttl, background_per_runtime=per_runtime
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(resources.owner.serve)
        found = World(resources, [], close_seconds)
        yield found
        await resources.aclose()
        resources.owner.close()
        await resources.owner.ended.wait()
    assert all(one.closed == 1 for one in found.made)


def built(builders: list[EventBuilder]) -> list[object]:
    return [builder(EventScope("s", "r", "q"), "id", 1.0) for builder in builders]


async def test_session_keeps_its_workspace_between_runs() -> None:
    async with world() as found:
        lease = await found.lease()
        lease.release()
        for _ in range(2):
            lease = await found.lease()
            assert (await lease.workspace.stat("a")).path == "a"
            lease.release()
            lease.release()
        assert len(found.made) == 1
        with pytest.raises(WorkspaceError, match="has ended"):
            await lease.workspace.stat("a")
        assert found.resources.statistics().leases == 0


async def test_reacquisition_waits_for_close(autojump_clock: MockClock) -> None:
    async with world(close_seconds=5) as found:
        (await found.lease()).release()
        found.resources.forget("s")
        found.resources.forget("unknown")
        started = trio.current_time()
        lease = await found.lease()
        assert trio.current_time() - started == 5
        assert [one.closed for one in found.made] == [1, 0]
        lease.release()


async def test_shared_lease_keeps_workspace_open() -> None:
    async with world() as found:
        parent = await found.lease()
        child = parent.share("session")
        parent.release()
        found.resources.forget("s")
        await trio.testing.wait_all_tasks_blocked()
        assert (await child.workspace.stat("a")).path == "a"
        child.release()
        await trio.testing.wait_all_tasks_blocked()
        assert found.made[0].closed == 1


async def test_idle_workspace_closes_after_its_ttl(autojump_clock: MockClock) -> None:
    async with world(ttl=60) as found:
        lease = await found.lease()
        await trio.sleep(100)
        task = await lease.background.start(COMMAND)
        lease.release()
        await trio.sleep(100)
        assert found.made[0].closed == 0, "a background command is running"
        found.made[0].processes[0].end()
        await trio.sleep(59)
        (await found.lease()).release()
        await trio.sleep(59)
        assert [one.task_id for one in found.resources.tasks("s")] == [task.task_id]
        await trio.sleep(2)
        assert found.made[0].closed == 1
        assert found.resources.tasks("s") == ()


async def test_different_workspace_replaces_the_old_one() -> None:
    own = FakeWorkspace()
    configs: list[tuple[WorkspaceConfig, Path]] = []

    def make(config: WorkspaceConfig, cwd: Path) -> Workspace:
        configs.append((config, cwd))
        return FakeWorkspace()

    async with world(make=make) as found:
        (await found.lease()).release()
        (await found.lease(source=own)).release()
        assert found.made[0].closed == 1
        for _ in range(2):
            config = as_workspace({"type": "local", "root": "x"})
            assert config is not None
            (await found.lease(source=config)).release()
        assert [(config.type, cwd) for config, cwd in configs] == [("local", Path("/cwd"))]

        def factory_of(name: str) -> WorkspaceSource:
            return lambda info: found.make(attrs.evolve(info, agent_name=name))

        for name in ("a", "a", "b"):
            (await found.lease(source=factory_of(name))).release()
    assert len(found.made) == 3
    assert own.closed == 0, "the caller closes its own workspace"


async def test_factory_failures_name_the_reason() -> None:
    async def wrong(info: RunInfo) -> Workspace:
        raise OSError(f"no room for {info.session_id}")

    async with world() as found:
        cases: list[tuple[WorkspaceSource, str]] = [
            (wrong, "could not be created: OSError: no room for s"),
            (cast("WorkspaceSource", str), "must return a Workspace; it returned .RunInfo"),
        ]
        for source, message in cases:
            with pytest.raises((ConfigError, WorkspaceError), match=message):
                await found.lease(source=source)
        (await found.lease()).release()


async def test_commands_wait_for_slots_fairly(autojump_clock: MockClock) -> None:
    own = FakeWorkspace()
    async with world() as found:
        many, few = await found.lease("many", own), await found.lease("few", own)
        async with trio.open_nursery() as nursery:
            for number in range(1_000):
                spec = ProcessSpec(argv=f"many {number}")
                nursery.start_soon(many.workspace.exec, spec)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(few.workspace.exec, ProcessSpec(argv="few"))
        assert own.peak == 32
        assert own.order.index("few") < 64, "another session waits for one round only"
        assert found.resources.statistics().commands.peak == 32
        many.release()
        few.release()


async def test_processes_of_tools_end_with_the_run() -> None:
    async with world() as found:
        lease = await found.lease()
        left = await lease.workspace.start(COMMAND, ignore)
        done = await lease.workspace.start(COMMAND, ignore)
        found.made[0].processes[1].end()
        assert await done.wait() == ProcessEnd(exit_code=0)
        await lease.end_processes()
        lease.release()
        assert [one.kills for one in found.made[0].processes] == [1, 0]
        assert (await left.wait()).signal == "SIGTERM"


async def test_background_output_is_read_once() -> None:
    async with world() as found:
        lease = await found.lease()
        task = await lease.background.start(ProcessSpec(argv=("serve", "a b")))
        assert (task.command, task.status, task.started_at) == ("serve 'a b'", "running", 5.0)
        process = found.made[0].processes[0]
        process.write("stdout", b"one ")
        process.write("stderr", b"oh")
        process.write("stdout", b"two")
        output = await lease.background.read(task.task_id)
        assert (output.stdout, output.stderr) == (b"one two", b"oh")
        process.write("stdout", b"bye")
        killed = await lease.background.kill(task.task_id)
        assert (killed.stdout, killed.task.status) == (b"bye", "killed")
        assert killed.task.end == ProcessEnd(signal="SIGTERM")
        assert (await lease.background.kill(task.task_id)).task.status == "killed"
        assert lease.background.list() == (killed.task,)
        with pytest.raises(WorkspaceError, match=f"the known ids are: {task.task_id}"):
            await lease.background.read("bg_other")
        lease.release()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1_200_000)), max_size=8))
def test_buffered_output_is_limited_and_counted(writes: list[tuple[bool, int]]) -> None:
    command = BackgroundCommand(BackgroundTask(task_id="t", command="c"))
    written = 0
    for to_error, size in writes:
        command.take_output("stderr" if to_error else "stdout", b"x" * size)
        written += size
    output = command.read()
    kept = len(output.stdout) + len(output.stderr)
    assert kept == min(written, MAX_BUFFERED_BYTES)
    assert output.task.dropped_bytes == written - kept


def test_newest_output_is_kept() -> None:
    command = BackgroundCommand(BackgroundTask(task_id="t", command="c"))
    command.take_output("stdout", b"a" * MAX_BUFFERED_BYTES)
    command.take_output("stdout", b"end")
    assert command.read().stdout.endswith(b"aend")
    assert len(command_text(ProcessSpec(argv="y" * 9_999))) == 2_000


async def test_background_limits_hold() -> None:
    async with world(per_runtime=9) as found:
        first, second = await found.lease("a"), await found.lease("b")
        for _ in range(8):
            await first.background.start(COMMAND)
        with pytest.raises(WorkspaceError, match="the session has 8 running") as caught:
            await first.background.start(COMMAND)
        assert caught.value.reason == "limit"
        await second.background.start(COMMAND)
        with pytest.raises(WorkspaceError, match="the runtime has 9 running"):
            await second.background.start(COMMAND)
        listed = found.resources.statistics().background
        assert {name: len(tasks) for name, tasks in listed.items()} == {"a": 8, "b": 1}
        first.release()
        second.release()
    kills = [process.kills for made in found.made for process in made.processes]
    assert kills == [1] * 9, "closing ends every background command"


async def test_only_newest_ended_commands_are_kept() -> None:
    async with world() as found:
        lease = await found.lease()
        for _ in range(KEPT_ENDED + 2):
            task = await lease.background.start(COMMAND)
            await lease.background.kill(task.task_id)
        assert len(lease.background.list()) == KEPT_ENDED
        lease.release()


async def test_deleted_session_keeps_commands_of_the_runtime() -> None:
    async with world() as found:
        lease = await found.lease()
        await lease.background.start(COMMAND)
        lasting = lease.share("runtime")
        await lasting.background.start(COMMAND)
        lasting.release()
        lease.release()
        found.resources.forget("s")
        await trio.testing.wait_all_tasks_blocked()
        assert [one.kills for one in found.made[0].processes] == [1, 0]
        (await found.lease()).release()
        assert len(found.made) == 2, "the new session has a new workspace"
        found.made[0].processes[1].end()
        await trio.testing.wait_all_tasks_blocked()
        assert [one.closed for one in found.made] == [1, 0]


async def test_ends_between_runs_are_recorded_later() -> None:
    async with world() as found:
        lease = await found.lease()
        notes: list[EventBuilder] = []
        lease.record_with(notes.append)
        during = await lease.background.start(COMMAND)
        after = await lease.background.start(COMMAND)
        found.made[0].processes[0].end()
        await trio.testing.wait_all_tasks_blocked()
        kinds = [type(event) for event in built(notes)]
        assert kinds == [BackgroundStarted, BackgroundStarted, BackgroundEnded]
        lease.release()
        found.made[0].processes[1].end()
        await trio.testing.wait_all_tasks_blocked()
        assert len(notes) == 3
        gone = BackgroundTask(task_id="gone", command="c")
        log = {task.task_id: task for task in (attrs.evolve(during, status="ended"), after, gone)}
        first, second = built(found.resources.unrecorded("s", log))
        assert isinstance(first, BackgroundEnded)
        assert first.task_id == after.task_id
        assert isinstance(second, BackgroundLost)
        assert second.task_id == "gone"
        other = await found.lease()  # this lease has no log to record in
        await other.background.start(COMMAND)
        other.release()
        assert [type(one) for one in built(found.resources.unrecorded("s", {}))] == [
            BackgroundStarted
        ]
        assert found.resources.unrecorded("s", {}) == []


async def test_teardown_ends_what_is_owned() -> None:
    ids = Uuid7Ids(lambda: 0.0, Random(0).getrandbits)
    resources = SessionResources(fake_workspace, ids, lambda: 0.0)
    found = World(resources, [])
    async with trio.open_nursery() as nursery:
        await nursery.start(resources.owner.serve)
        lease = await found.lease()
        await lease.background.start(COMMAND)
        nursery.cancel_scope.cancel("crash of another actor")
    assert found.made[0].closed == 1
    assert found.made[0].processes[0].kills >= 1


def _is_of_actor(task: trio.lowlevel.Task) -> bool:
    return task.name.endswith("ActorLoop._background")


def test_cancelled_use_leaves_nothing() -> None:
    async def use(found: World) -> None:
        lease = await found.lease()
        try:
            await lease.workspace.exec(COMMAND)
            task = await lease.background.start(COMMAND)
            await lease.workspace.start(COMMAND, ignore)
            await lease.background.kill(task.task_id)
            found.resources.forget("s")
        finally:
            with trio.move_on_after(5, shield=True):
                await lease.end_processes()
            lease.release()
        (await found.lease()).release()

    def check(_: int, outcome: StepOutcome[World]) -> None:
        found = outcome.subject
        seen = found.resources.statistics()
        assert (seen.leases, seen.commands.used, seen.commands.waiting) == (0, 0, 0)
        running = [one for made in found.made for one in made.processes if one.result is None]
        background = [one for tasks in seen.background.values() for one in tasks]
        assert len(running) == sum(one.status == "running" for one in background)

    steps = cancel_at_every_step(
        use, around=lambda: world(close_seconds=1), check=check, may_stay=_is_of_actor
    )
    assert steps > 10


@given(st.lists(st.tuples(st.sampled_from("lsrfkewc"), st.integers(0, 2)), max_size=30))
def test_leased_workspace_is_never_closed(steps: list[tuple[str, int]]) -> None:
    """Any order of leases, releases, deletions, cancellations and ends keeps the promises."""

    async def play() -> None:
        async with world(close_seconds=3, ttl=10) as found:
            held: list[WorkspaceLease] = []
            async with trio.open_nursery() as nursery:

                async def take(session: str, patience: float) -> None:
                    with trio.move_on_after(patience):
                        held.append(await found.lease(session))

                for action, number in steps:
                    session = f"s{number}"
                    if action == "l":
                        nursery.start_soon(take, session, math.inf)
                        await trio.testing.wait_all_tasks_blocked()
                    elif action == "c":
                        await take(session, number)
                    elif action == "f":
                        found.resources.forget(session)
                    elif action == "w":
                        await trio.sleep(4 * number)
                    elif held and action == "s":
                        held.append(held[-1].share("session"))
                    elif held and action == "r":
                        held.pop(number % len(held)).release()
                    elif held and action == "k":
                        await held[-1].background.start(COMMAND)
                    for made in found.made:
                        for process in made.processes if action == "e" else ():
                            process.end()
                    for lease in held:
                        assert (await lease.workspace.stat("a")).path == "a"
                nursery.cancel_scope.cancel("the steps are over")
            for lease in held:
                lease.release()

    async def bounded() -> None:
        with trio.fail_after(10_000):
            await play()

    trio.run(bounded, clock=MockClock(autojump_threshold=0))

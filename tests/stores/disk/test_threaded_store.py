"""Behavior of both stores on disk beyond the contract: sharing, durability, and cleanup."""

import logging
import math
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import pytest
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.abc import LogAppend
from agent_actors.codec.events import dumps_event
from agent_actors.domain.events import Event, Notification
from agent_actors.errors import SessionBusy, SessionFenced, SessionStoreError
from agent_actors.stores.disk import threaded_store as _disk
from agent_actors.stores.disk.threaded_store import DiskStore, Durability
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel
from tests.contracts.test_session_store import append, notes
from tests.program_helpers import output_of

DAY: Final = 86_400.0

STORES: Final[dict[str, Callable[..., DiskStore]]] = {
    "sqlite": partial(SqliteStore, cleanup_period_days=math.inf),
    "jsonl": partial(JsonlStore, cleanup_period_days=math.inf),
}


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., DiskStore]:
    return partial(STORES[request.param], tmp_path / "deep" / "store")


@asynccontextmanager
async def opened(store: DiskStore) -> AsyncGenerator[DiskStore]:
    await store.open()
    try:
        yield store
    finally:
        with trio.CancelScope(shield=True):
            await store.aclose()


Make = Callable[..., DiskStore]


def kind_of(make: Make) -> str:
    return "sqlite" if cast("partial[DiskStore]", make).func is SqliteStore else "jsonl"


async def all_given_back(store: DiskStore) -> None:
    with trio.fail_after(5):
        while store._kept:  # noqa: ASYNC110 - a thread releases them
            await trio.sleep(0.001)
    await store.info("s")  # by now, the thread has released its locks


async def test_committed_records_survive_reopening(make: Make) -> None:
    async with opened(make()) as store:
        await store.append([append(0, "a", "b", metadata={"n": 1})])
        store.evicted("s")
        assert tuple(await store.load("s")) == notes(1, "a", "b")
    async with opened(make()) as store:
        assert tuple(await store.load("s")) == notes(1, "a", "b")
        assert await store.append([append(2, "c")]) == [None]
    async with opened(make()) as store:
        info = await store.info("s")
        assert info is not None
        assert (info.last_seq, info.metadata) == (3, {"n": 1})


@pytest.mark.parametrize("durability", ["sync", "batch", "exit"])
async def test_each_durability_keeps_what_was_closed(
    make: Make, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_disk, "SYNC_EVERY", 0.0)
    async with opened(make(durability=durability)) as store:
        for position in range(5):
            assert await store.append([append(position, "x", metadata={"n": position})]) == [None]
    async with opened(make()) as store:
        assert len(await store.load("s")) == 5


async def test_deferred_sync_happens_later(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_disk, "SYNC_EVERY", 0.0)
    async with opened(make()) as store:

        def fails() -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(store._core, "sync", fails)
            assert await store.append([append(0, "a")]) == [None]
        assert await store.append([append(1, "b")]) == [None]
    async with opened(make()) as store:
        assert len(await store.load("s")) == 2


async def test_files_are_for_their_owner_only(make: Make, tmp_path: Path) -> None:
    async with opened(make()) as store:
        await store.append([append(0, "a")])
        found = list((tmp_path / "deep").rglob("*"))
        assert found
        for path in found:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path


# Opening and closing.


async def test_unopened_store_is_an_error(make: Make) -> None:
    store = make()
    store.released("s")
    store.evicted("s")
    with pytest.raises(SessionStoreError, match="is not open") as caught:
        await store.append([append(0, "a")])
    assert caught.value.session_id == ""
    async with opened(store):
        with pytest.raises(SessionStoreError, match="is already open"):
            await store.open()
        assert await store.append([append(0, "a")]) == [None]


async def test_unusable_path_leaves_nothing_open(make: Make, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("a file")
    store = make()
    with pytest.raises(SessionStoreError, match="deep"):
        await store.open()
    (tmp_path / "deep").unlink()
    async with opened(store):
        assert await store.append([append(0, "a")]) == [None]


async def test_cancelled_open_is_closed_again(make: Make) -> None:
    store = make()
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.open()
    assert scope.cancelled_caught
    async with opened(store) as again:
        assert await again.append([append(0, "a")]) == [None]


async def test_cancelled_close_completes(make: Make) -> None:
    store = make()
    await store.open()
    assert await store.append([append(0, "a")]) == [None]
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    assert scope.cancelled_caught
    await store.open()  # runs after the close, which has released the session
    async with opened(make()) as other:
        assert await other.append([append(1, "b")]) == [None]
    await store.aclose()


# Two openings.


async def test_session_has_one_writer(make: Make) -> None:
    async with opened(make()) as one, opened(make()) as other:
        assert await one.append([append(0, "a")]) == [None]
        [outcome, free] = await other.append([append(1, "b"), append(0, "x", session="t")])
        assert isinstance(outcome, SessionBusy)
        assert "in another process" in str(outcome)
        assert free is None
        with pytest.raises(SessionBusy):
            await other.load("s")
        with pytest.raises(SessionBusy):
            await other.delete("s")
        # Reading does not take the session.
        assert len(await other.export("s")) == 1
        assert await other.annotate("s", {"seen": True})
        info = await one.info("s")
        assert info is not None
        assert info.metadata == {"seen": True}
        assert await one.append([append(1, "b")]) == [None]
        one.released("s")
        await one.info("s")  # the next job releases the session, if not earlier
        assert tuple(await other.load("s")) == notes(1, "a", "b")
        assert await other.append([append(2, "c")]) == [None]
        other.released("s")
        await other.info("s")
        [outcome] = await one.append([append(2, "d")])
        assert isinstance(outcome, SessionFenced)
        assert tuple(await one.load("s", after_seq=2)) == notes(3, "c")
        assert await one.append([append(3, "d")]) == [None]


async def test_idle_session_stays_locked_briefly(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_disk, "_LOOK_EVERY", 0.001)
    async with opened(make()) as one:
        assert not one.take_nowait("s")
        await one.append([append(0, "a")])
        assert not one.take_nowait("s")
        one.released("s")
        assert one.take_nowait("s")
        assert not one.take_nowait("s")
        one.released("s")
        await trio.sleep(0.005)
        assert one.take_nowait("s")
        async with opened(make()) as other:
            with pytest.raises(SessionBusy):
                await other.load("s")
            one.released("s")
            await all_given_back(one)
            assert not one.take_nowait("s")
            assert len(await other.load("s")) == 1


async def test_unused_session_is_released_later(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_disk, "_LOOK_EVERY", 0.001)
    monkeypatch.setattr(_disk, "_KEEP", 0.003)
    async with opened(make()) as store:
        await store.append([append(0, "a")])
        store.released("s")
        await all_given_back(store)
        assert not store.take_nowait("s")
        assert await store.append([append(1, "b")]) == [None]


async def test_lock_failure_is_store_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> bool:
        raise OSError(37, "No locks available")

    async with opened(make()) as store:
        await store.append([append(0, "a")])
        with monkeypatch.context() as patch:
            patch.setattr(store._core, "alone", fails)
            store._looks = True  # check in the job rather than in the idle thread
            store.released("s")
            with pytest.raises(SessionStoreError, match="No locks"):
                await store.info("s")
        assert await store.info("s") is not None


async def test_release_needs_no_further_call(make: Make) -> None:
    async with opened(make()) as one, opened(make()) as other:
        await one.append([append(0, "a")])
        one.released("s")
        with trio.fail_after(5):
            while True:
                try:
                    assert len(await other.load("s")) == 1
                    return
                except SessionBusy:
                    await trio.sleep(0.001)


async def test_openings_see_deletes_and_creations(make: Make) -> None:
    async with opened(make()) as one, opened(make()) as other:
        await one.append([append(0, "a"), append(0, "x", session="t")])
        one.released("s")
        await one.info("s")
        await other.delete("s")
        assert await other.append([append(0, "b", "c")]) == [None]
        assert await one.append([append(1, "y", session="t"), append(0, "u", session="u")]) == [
            None,
            None,
        ]
        assert tuple(await other.load("s")) == notes(1, "b", "c")
        assert tuple(await one.load("t")) == notes(1, "x", "y", session="t")
        found = await other.list_sessions()
        assert sorted(info.session_id for info in found.sessions) == ["s", "t", "u"]


@pytest.mark.feature("ASDK-048")
async def test_session_in_use_is_not_pruned(make: Make) -> None:
    async with opened(make()) as one, opened(make()) as other:
        await one.append([append(0, "a")])
        assert list(await other.prune(100.0)) == []
        one.released("s")
        await one.info("s")
        assert list(await other.prune(100.0)) == ["s"]


async def test_two_runtimes_share_one_store(make: Make) -> None:
    entered, go_on = trio.Event(), trio.Event()

    async def asked(_: object) -> str:
        entered.set()
        await go_on.wait()
        return "Late."

    slow = AgentOptions(model="m", provider=Provider(asked))
    quick = AgentOptions(model="m", provider=ScriptedModel(["Quick."] * 3))
    texts: list[str] = []

    async def run_slow() -> None:
        texts.append((await one.run("go", slow, session_id="s")).text)

    async with open_runtime(store=make()) as one, open_runtime(store=make()) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_slow)
            await entered.wait()
            with pytest.raises(SessionBusy, match="in another process"):
                await other.run("go", quick, session_id="s")
            assert (await other.run("go", quick, session_id="t")).text == "Quick."
            go_on.set()
        await trio.sleep(0.03)
        result = await other.run("go", quick, session_id="s")
    assert texts == ["Late."]
    assert [message.content for message in result.messages] == ["go", "Late.", "go", "Quick."]


class Provider:
    """A provider with a single method."""

    def __init__(self, answer: Callable[[object], object]) -> None:
        self.complete = answer


# Old sessions.


@pytest.mark.feature("ASDK-048")
@pytest.mark.parametrize("default", [SqliteStore, JsonlStore])
async def test_sessions_are_kept_for_30_days(default: Make, tmp_path: Path) -> None:
    make = partial(default, tmp_path / "store")
    async with opened(make(wall_clock=lambda: 20 * DAY)) as store:
        for name, day in (("old", 0), ("young", 20), ("new", 60)):
            await store.append([append(0, "x", session=name, ts=day * DAY)])
    for days, gone in ((29, set[str]()), (31, {"old"}), (49, {"old"}), (51, {"old", "young"})):
        async with opened(make(wall_clock=lambda days=days: days * DAY)) as store:
            await store.info("old")  # the thread prunes after its first request
            page = await store.list_sessions()
            kept = {info.session_id for info in page.sessions}
            assert kept == {"old", "young", "new"} - gone


async def test_old_sessions_are_pruned_daily(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(make()) as store:
        for name, day in (("old", 0), ("young", 20), ("new", 31)):
            await store.append([append(0, "x", session=name, ts=day * DAY)])
    store = make(cleanup_period_days=30, wall_clock=lambda: 31 * DAY)
    with caplog.at_level(logging.INFO, "agent_actors.stores"):
        async with opened(store):
            await store.info("old")  # done when the thread gets to it
            assert await store.info("old") is None
            assert await store.info("young") is not None
    [record] = caplog.records
    assert record.levelno == logging.INFO
    assert "deleted 1 sessions without records since 1970-01-02" in record.getMessage()
    assert record.getMessage().endswith(": 'old'")
    async with opened(make(cleanup_period_days=30, wall_clock=lambda: 49 * DAY)) as store:
        await store.info("young")
        assert await store.info("young") is not None


@pytest.mark.parametrize("now", [400 * DAY, 1e300])
async def test_wrong_clock_deletes_nothing(make: Make, now: float) -> None:
    async with opened(make()) as store:
        for name, day in (("one", 0), ("two", 28.5)):
            await store.append([append(0, "x", session=name, ts=day * DAY)])
    async with opened(make(cleanup_period_days=30, wall_clock=lambda: now)) as store:
        await store.info("one")
        assert [info.session_id for info in (await store.list_sessions()).sessions] == [
            "two",
            "one",
        ]
        await store.append([append(0, "x", session="three", ts=29.5 * DAY)])
    async with opened(make(cleanup_period_days=30, wall_clock=lambda: now)) as store:
        await store.info("one")
        assert await store.info("one") is None


async def test_deletion_before_any_date_is_logged(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(make()) as store:
        await store.append([append(0, "x")])
        store.released("s")
        with caplog.at_level(logging.INFO, "agent_actors.stores"):
            assert await store.prune(1e300) == ["s"]
        assert "since 1e+300" in caplog.text


# Replaced files.


def files_of(make: Make, tmp_path: Path) -> list[Path]:
    path = tmp_path / "deep" / "store"
    if kind_of(make) == "jsonl":
        return [path / "lock", path / "sessions"]
    return [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-lock")]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("number", range(4))
async def test_replaced_store_fails_every_call(
    make: Make, tmp_path: Path, number: int, replaced: bool
) -> None:
    async with opened(make()) as store:
        await store.append([append(0, "a")])
        files = files_of(make, tmp_path)
        target = files[number % len(files)]
        moved = target.with_name("moved")
        target.rename(moved)
        if replaced:
            if moved.is_dir():
                target.mkdir()
            else:
                target.write_bytes(moved.read_bytes())
        expected = (
            f"'{target.name}' was {'replaced' if replaced else 'deleted'} while the store was"
        )
        for call in (
            store.append([append(1, "b")]),
            store.load("s"),
            store.info("s"),
            store.list_sessions(),
            store.annotate("s", {"n": 1}),
            store.delete("s"),
        ):
            with pytest.raises(SessionStoreError, match=expected):
                await call
        if replaced and moved.is_dir():
            target.rmdir()
        moved.rename(target)
        assert await store.append([append(1, "b")]) == [None]
    async with opened(make()) as store:
        assert len(await store.load("s")) == 2


# Read-only stores.

READER: Final = """
import logging, os, sys, trio
from functools import partial
from pathlib import Path
from agent_actors import AgentOptions, open_runtime
from agent_actors.errors import SessionStoreError
from agent_actors.testing import ScriptedModel
from tests.stores.disk.test_threaded_store import STORES
from tests.contracts.test_session_store import append

async def main():
    store = STORES[sys.argv[1]](Path(sys.argv[2]))
    options = AgentOptions(model="m", provider=ScriptedModel(["Never."]))
    async with open_runtime(store=store) as runtime:
        assert store.read_only, store.read_only
        [info] = (await runtime.list_sessions()).sessions
        assert (info.session_id, info.last_seq, info.metadata["n"]) == ("s", 2, 1), info
        assert len(await runtime.sessions.records("s")) == 2
        assert len(await store.load("s")) == 2
        assert await runtime.sessions.check("s") == ()
        for change in (
            partial(runtime.run, "Go.", options, session_id="s"),
            partial(runtime.sessions.rewind, "s", 0),
            partial(runtime.sessions.annotate, "s", {"n": 2}),
            partial(runtime.sessions.delete, "s"),
            partial(runtime.sessions.repair, "s"),
            partial(store.prune, 1e9),
            partial(store.append, [append(2, "c")]),
        ):
            try:
                await change()
            except SessionStoreError as error:
                assert "open for reading only" in str(error), error
            else:
                raise AssertionError(change)
        assert not options.provider.requests
    print("ok", flush=True)

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
trio.run(main)
"""


@pytest.mark.usefixtures("fork_server")
@pytest.mark.parametrize("closed", [True, False])
def test_unwritable_store_can_be_read(make: Make, closed: bool) -> None:
    kind = kind_of(make)

    async def write(folder: Path) -> None:
        async with opened(STORES[kind](folder / "original" / "store")) as store:
            await store.append([append(0, "a", "b", metadata={"n": 1})])
            if not closed:  # leave the files as after a kill
                shutil.copytree(folder / "original", folder / "copy")
        if closed:
            shutil.copytree(folder / "original", folder / "copy")

    with TemporaryDirectory() as name:
        folder, copy = Path(name), Path(name) / "copy"
        trio.run(write, folder)
        for shm in copy.glob("*-shm"):
            shm.unlink()
        found = [copy, *copy.rglob("*")]
        for one in found:
            one.chmod(0o555 if one.is_dir() else 0o444)
        folder.chmod(0o755)
        try:
            output = output_of(["-c", READER, kind, str(copy / "store")])
        finally:
            for one in found:
                one.chmod(0o755)
    assert output == "ok\n"


async def test_full_disk_leaves_store_readable(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(make()) as store:
        await store.append([append(0, "a")])
    with monkeypatch.context() as patch:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("agent_actors.stores._jsonl_core.replace_file", full)
        patch.setattr("agent_actors.stores._sqlite_core.migrate", full)
        with caplog.at_level(logging.WARNING, "agent_actors.stores"):
            await store.open()
        assert "No space left" in store.read_only
        assert "open for reading only" in caplog.text
        assert tuple(await store.load("s")) == notes(1, "a")
        store.released("s")
        with pytest.raises(SessionStoreError, match="No space left on device; solve this problem"):
            await store.append([append(1, "b")])
        await store.aclose()
    async with opened(store):
        assert store.read_only == ""
        assert await store.append([append(1, "b")]) == [None]


async def test_unwritable_missing_store_is_an_error(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("agent_actors.stores._jsonl_core.StoreLocks", forbidden)
    monkeypatch.setattr("agent_actors.stores._sqlite_core.StoreLocks", forbidden)
    store = make()
    with pytest.raises(SessionStoreError, match="Permission denied"):
        await store.open()
    assert store.read_only == ""


# Forks.

FORKER: Final = """
import os, sys, trio
from pathlib import Path
from agent_actors.errors import SessionStoreError
from tests.stores.disk.test_threaded_store import STORES
from tests.contracts.test_session_store import append

async def child(store):
    try:
        await store.load("s")
    except SessionStoreError as error:
        assert "is not open" in str(error), error
    if sys.argv[1] == "sqlite":
        try:
            await STORES["sqlite"](Path(sys.argv[2])).open()
        except SessionStoreError as error:
            assert "forked" in str(error), error
        else:
            raise AssertionError("opened")

async def main():
    await store.open()
    assert await store.append([append(0, "a")]) == [None]

store = STORES[sys.argv[1]](Path(sys.argv[2]))
trio.run(main)
pid = os.fork()
if not pid:
    trio.run(child, store)
    print(os.getpid(), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)
sys.stdin.buffer.read()
"""


def test_forked_child_holds_no_session(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    command = [sys.executable, "-c", FORKER, kind_of(make), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())

        async def use() -> None:
            async with opened(make()) as store:
                with pytest.raises(SessionBusy):
                    await store.load("s")
                process.kill()
                process.wait()
                os.kill(child, 0)  # the child is alive
                assert len(await store.load("s")) == 1
                assert await store.append([append(1, "b")]) == [None]

        trio.run(use)


# Hostile appends.


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[]", "expected a JSON object with a type"),
        (b'{"type":"notification","seq":1}', "missing required field `session_id`"),
        (dumps_event(notes(7, "a")[0]).encode(), "position 1 has seq 7"),
    ],
)
async def test_unreadable_lines_are_refused(make: Make, line: bytes, reason: str) -> None:
    async with opened(make()) as store:
        [outcome, other] = await store.append(
            [LogAppend("s", 0, 1, notes(1, "a"), lines=(line,)), append(0, "x", session="t")]
        )
        assert isinstance(outcome, SessionStoreError)
        assert reason in str(outcome)
        assert other is None
        assert await store.info("s") is None


async def test_unreadable_events_are_refused(make: Make) -> None:
    [note] = notes(1, "a")
    bad = [
        Notification(note.scope, "i", 1.0, cast("str", 3), seq=1),
        Notification(note.scope, "i", 1.0, "a", cast("str", [object()]), seq=1),
        object(),
    ]
    async with opened(make()) as store:
        for event in bad:
            [outcome] = await store.append([LogAppend("s", 0, 1, (cast(Event, event),))])
            assert isinstance(outcome, SessionStoreError)
            assert "nothing was written" in str(outcome)
        assert await store.info("s") is None


async def test_record_of_future_type_survives(make: Make) -> None:
    line = b'{"type":"from.the.future","seq":1,"ts":2.5,"deep":{"a":[1,null]}}'
    async with opened(make()) as store:
        assert await store.append([LogAppend("s", 0, 1, notes(1, "a"), lines=(line,))]) == [None]
        [record] = await store.load("s")
        assert (record.type, record.seq, record.ts) == ("from.the.future", 1, 2.5)
        assert await store.append([LogAppend("t", 0, 1, (record,))]) == [None]
        assert list(await store.export("t")) == [line]

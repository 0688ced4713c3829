"""What both stores on disk do beyond the contract: they share, they last, they clean up."""

import math
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
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


async def all_given_back(store: DiskStore) -> None:
    with trio.fail_after(5):
        while store._kept:  # noqa: ASYNC110 - a thread gives them back
            await trio.sleep(0.001)


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


async def test_unopened_store_says_so(make: Make) -> None:
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
    await store.open()  # behind the closing, which has let go of the session
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
        # To look at it is no use of it.
        assert len(await other.export("s")) == 1
        assert await other.annotate("s", {"seen": True})
        info = await one.info("s")
        assert info is not None
        assert info.metadata == {"seen": True}
        assert await one.append([append(1, "b")]) == [None]
        one.released("s")
        await one.info("s")  # what was released goes with the next job, at the latest
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
            store._looks = True  # the job looks, and not the thread by itself
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
    """A provider of one function."""

    def __init__(self, answer: Callable[[object], object]) -> None:
        self.complete = answer


# Old sessions.


@pytest.mark.feature("ASDK-048")
@pytest.mark.parametrize("default", [SqliteStore, JsonlStore])
async def test_sessions_are_kept_for_30_days(default: Make, tmp_path: Path) -> None:
    day = 86_400.0
    make = partial(default, tmp_path / "store")
    async with opened(make(wall_clock=lambda: 20 * day)) as store:
        for position, name in enumerate(("old", "young")):
            await store.append([append(0, "x", session=name, ts=position * 20 * day)])
    for days, kept in ((29, {"old", "young"}), (31, {"young"}), (49, {"young"}), (51, set[str]())):
        async with opened(make(wall_clock=lambda days=days: days * day)) as store:
            await store.info("old")  # the thread prunes after its first request
            page = await store.list_sessions()
            assert {info.session_id for info in page.sessions} == kept


async def test_many_old_sessions_go_in_pieces(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_disk, "_PRUNED_AT_ONCE", 2)
    names = [str(number) for number in range(5)]
    async with opened(make()) as store:
        await store.append([append(0, "x", session=name) for name in names])
        for name in names:
            store.released(name)
        assert sorted(await store.prune(2.0)) == names
        assert (await store.list_sessions()).sessions == ()


async def test_failed_pruning_harms_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make(cleanup_period_days=1)

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store._core, "prune", fails)
    async with opened(store):
        assert await store.append([append(0, "a")]) == [None]
        with pytest.raises(SessionStoreError, match="Input/output error"):
            await store.prune(1.0)


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

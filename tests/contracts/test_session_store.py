"""The contract of `SessionStore`; a new store adds itself to STORES."""

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from agent_actors.abc import LogAppend, ResultStore, SessionStore
from agent_actors.domain.events import Event, EventScope, Notification
from agent_actors.domain.json import JsonValue
from agent_actors.domain.session import SessionInfo, SessionOrder
from agent_actors.errors import ConfigError, SessionFenced, SessionStoreError
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore

STORES: dict[str, Callable[[Path], SessionStore]] = {
    "MemoryStore": lambda _: MemoryStore(),
    "SqliteStore": lambda path: SqliteStore(path, cleanup_period_days=math.inf),
    "JsonlStore": lambda path: JsonlStore(path, cleanup_period_days=math.inf),
}


@pytest.fixture(params=STORES)
def unopened(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return STORES[request.param](tmp_path / "store")


@pytest.fixture
async def store(unopened: SessionStore) -> AsyncIterator[SessionStore]:
    await unopened.open()
    yield unopened
    await unopened.aclose()


def notes(first: int, *texts: str, session: str = "s", ts: float = 1.0) -> tuple[Event, ...]:
    scope = EventScope(session, "r", "q")
    return tuple(
        Notification(scope, f"{session}{seq}", ts, text, seq=seq)
        for seq, text in enumerate(texts, first)
    )


def append(
    after: int,
    *texts: str,
    session: str = "s",
    fence: int = 1,
    ts: float = 1.0,
    metadata: Mapping[str, JsonValue] | None = None,
) -> LogAppend:
    events = notes(after + 1, *texts, session=session, ts=ts)
    return LogAppend(session, after, fence, events, metadata)


async def test_the_epoch_grows_with_every_opening(unopened: SessionStore) -> None:
    first = await unopened.open()
    await unopened.aclose()
    assert await unopened.open() > first
    await unopened.aclose()


async def test_closing_twice_is_closing_once(unopened: SessionStore) -> None:
    await unopened.aclose()
    await unopened.open()
    await unopened.aclose()
    await unopened.aclose()


# Records.


@pytest.mark.feature("WICK-028")
async def test_records_are_read_in_order_from_offset(
    store: SessionStore,
) -> None:
    assert list(await store.load("s")) == []
    assert await store.append([append(0, "a", "b")]) == [None]
    assert await store.append([append(2, "c")]) == [None]
    assert tuple(await store.load("s")) == notes(1, "a", "b", "c")
    assert tuple(await store.load("s", after_seq=2)) == notes(3, "c")
    assert tuple(await store.load("s", after_seq=3)) == ()


@pytest.mark.parametrize("text", [3, object()])
async def test_unreadable_record_is_refused(store: SessionStore, text: object) -> None:
    """Untyped code may pass a record that could not be read back."""
    record = Notification(EventScope("s", "r", "q"), "s1", 1.0, cast(str, text), seq=1)
    bad = LogAppend("s", 0, 1, (record,))
    refused, added = await store.append([bad, append(0, "a")])
    assert isinstance(refused, SessionStoreError)
    assert added is None
    assert tuple(await store.load("s")) == notes(1, "a")


@pytest.mark.parametrize(
    "stale",
    [append(0, "x"), append(2, "x"), append(1, "x", fence=4)],
    ids=["old", "ahead", "fence"],
)
async def test_stale_append_is_refused_completely(store: SessionStore, stale: LogAppend) -> None:
    await store.append([append(0, "a", fence=5)])
    [outcome] = await store.append([stale])
    assert isinstance(outcome, SessionFenced)
    assert outcome.session_id == "s"
    assert tuple(await store.load("s")) == notes(1, "a")


async def test_appends_of_batch_are_independent(store: SessionStore) -> None:
    outcomes = await store.append(
        [append(0, "a"), append(9, "x", session="t"), append(1, "b"), append(0, "u", session="u")]
    )
    assert [outcome is None for outcome in outcomes] == [True, False, True, True]
    assert tuple(await store.load("s")) == notes(1, "a", "b")
    assert tuple(await store.load("t")) == ()
    assert tuple(await store.load("u")) == notes(1, "u", session="u")


async def test_returned_records_do_not_change(store: SessionStore) -> None:
    await store.append([append(0, "a")])
    before = await store.load("s")
    await store.append([append(1, "b")])
    assert len(before) == 1


async def test_empty_append_is_refused(store: SessionStore) -> None:
    [outcome] = await store.append([LogAppend("s", 0, 1, (), {"n": 1})])
    assert isinstance(outcome, SessionStoreError)
    assert await store.info("s") is None


@pytest.mark.parametrize(
    "lines", [(b"{}", b"{}"), (), (b'{"a":\n1}',)], ids=["more", "fewer", "break"]
)
async def test_non_event_lines_are_refused(store: SessionStore, lines: tuple[bytes, ...]) -> None:
    [outcome] = await store.append([LogAppend("s", 0, 1, notes(1, "a"), lines=lines)])
    assert isinstance(outcome, SessionStoreError)
    assert "one line of JSON per event" in str(outcome)
    assert await store.info("s") is None


# Metadata and listings.


async def test_session_info_follows_its_records(store: SessionStore) -> None:
    assert await store.info("s") is None
    await store.append([append(0, "a", ts=5.0, metadata={"cwd": "/srv", "tools": ["a"]})])
    await store.append([append(1, "b", "c", ts=7.5)])
    known: Mapping[str, JsonValue] = {"cwd": "/srv", "tools": ["a"]}
    assert await store.info("s") == SessionInfo("s", 5.0, 7.5, 3, known)
    await store.append([append(3, "d", ts=8.0, metadata={"cwd": None, "model": "m"})])
    assert await store.info("s") == SessionInfo("s", 5.0, 8.0, 4, {"tools": ["a"], "model": "m"})


async def test_metadata_is_kept_for_existing_sessions(store: SessionStore) -> None:
    assert not await store.annotate("s", {"title": "x"})
    await store.append([append(0, "a", metadata={"cwd": "/srv"})])
    assert await store.annotate("s", {"title": "Ä", "cwd": None, "deep": {"n": [1, 2.5, None]}})
    info = await store.info("s")
    assert info is not None
    assert info.metadata == {"title": "Ä", "deep": {"n": [1, 2.5, None]}}


async def test_refused_append_notes_no_metadata(store: SessionStore) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])
    await store.append([append(0, "a", metadata={"n": 2})])
    info = await store.info("s")
    assert info is not None
    assert info.metadata == {"n": 1}


async def test_non_json_metadata_is_refused(store: SessionStore) -> None:
    bad: Mapping[str, JsonValue] = {"n": float("nan")}
    [outcome, other] = await store.append(
        [append(0, "a", metadata=bad), append(0, "b", session="t", metadata={"n": 1})]
    )
    assert isinstance(outcome, SessionStoreError)
    assert "not a JSON number" in str(outcome)
    assert other is None
    assert await store.info("s") is None
    assert list(await store.load("s")) == []
    with pytest.raises(SessionStoreError, match="not a JSON number"):
        await store.annotate("t", bad)


async def listed(
    store: SessionStore, *, order: SessionOrder = "created", limit: int = 2, **where: JsonValue
) -> list[list[str]]:
    pages: list[list[str]] = []
    after: str | None = None
    wanted = {key: value for key, value in where.items() if not isinstance(value, list | dict)}
    while True:
        page = await store.list_sessions(
            where=wanted,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - scalars only, see above
            order=order,
            limit=limit,
            after=after,
        )
        pages.append([info.session_id for info in page.sessions])
        if page.next is None:
            return pages
        after = page.next


async def test_pages_hold_the_newest_first(store: SessionStore) -> None:
    assert await listed(store) == [[]]
    for position, name in enumerate("abcde"):
        await store.append([append(0, "x", session=name, ts=float(position))])
    await store.append([append(1, "x", session="b", ts=9.0)])
    assert await listed(store) == [["e", "d"], ["c", "b"], ["a"]]
    assert await listed(store, order="updated") == [["b", "e"], ["d", "c"], ["a"]]
    assert await listed(store, limit=5) == [["e", "d", "c", "b", "a"]]


async def test_ids_order_sessions_of_one_moment(store: SessionStore) -> None:
    names = ["a", "b", "Z", "ä", "\U0001f600", "\uffee"]
    await store.append([append(0, "x", session=name) for name in names])
    pages = await listed(store, limit=1)
    assert pages == [[name] for name in sorted(names, reverse=True)]


async def test_changes_between_pages_affect_nothing_else(
    store: SessionStore,
) -> None:
    for position, name in enumerate("abcd"):
        await store.append([append(0, "x", session=name, ts=float(position))])
    page = await store.list_sessions(limit=2)
    await store.append([append(0, "x", session="new", ts=10.0)])
    await store.delete("c")
    rest = await store.list_sessions(limit=2, after=page.next)
    assert [info.session_id for info in rest.sessions] == ["b", "a"]
    assert rest.next is None


@pytest.mark.parametrize("order", ["created", "updated"])
async def test_sessions_are_found_by_their_metadata(
    store: SessionStore, order: SessionOrder
) -> None:
    kinds: Sequence[JsonValue] = [1, 1.0, True, "1", None, "x", "x", [1]]
    for position, kind in enumerate(kinds):
        known = {"kind": kind, "even": position % 2 == 0}
        await store.append(
            [append(0, "x", session=str(position), ts=float(position), metadata=known)]
        )
    assert await listed(store, order=order, kind=1) == [["0"]]
    assert await listed(store, order=order, kind=1.0) == [["1"]]
    assert await listed(store, order=order, kind=True) == [["2"]]
    assert await listed(store, order=order, kind="1") == [["3"]]
    assert await listed(store, order=order, kind=None) == [["4"]]
    assert await listed(store, order=order, kind="x") == [["6", "5"]]
    assert await listed(store, order=order, kind="x", even=True) == [["6"]]
    assert await listed(store, order=order, kind="x", limit=1) == [["6"], ["5"]]
    assert await listed(store, order=order, other="x") == [[]]
    await store.annotate("0", {"kind": "x"})
    await store.annotate("5", {"kind": None})
    assert await listed(store, order=order, kind="x") == [["6", "0"]]
    assert await listed(store, order=order, kind=None) == [["5", "4"]]
    await store.delete("6")
    assert await listed(store, order=order, kind="x") == [["0"]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"limit": 0}, "between 1 and 1000"),
        ({"limit": 1001}, "between 1 and 1000"),
        ({"order": "size"}, "'created' or 'updated'"),
        ({"after": "x"}, "the `next` of an earlier page"),
        ({"after": '[1, "\ud800"]'}, "the `next` of an earlier page"),
        ({"after": "[1e999, 2]"}, "the `next` of an earlier page"),
        ({"where": {"a": [1]}}, "got list for 'a'"),
    ],
)
async def test_invalid_listing_is_refused(
    store: SessionStore, asked: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        await store.list_sessions(**asked)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose


async def test_a_listing_shows_what_info_shows(store: SessionStore) -> None:
    await store.append([append(0, "a", ts=5.0, metadata={"cwd": "/srv"})])
    page = await store.list_sessions()
    assert page.sessions == (await store.info("s"),)


# Records that another version wrote.

FUTURE = (
    b'{"type":"notification","version":9,"id":"s1","ts":1.0,"session_id":"s","run_id":"r",'
    b'"request_id":"q","seq":1,"text":"a","mood":"\xc3\xa4"}'
)


async def test_lines_are_kept_verbatim(store: SessionStore) -> None:
    event = notes(1, "a")
    assert await store.append([LogAppend("s", 0, 1, event, lines=(FUTURE,))]) == [None]
    assert await store.append([append(1, "b")]) == [None]
    first, second = await store.export("s")
    assert first == FUTURE
    assert b'"text":"b"' in second
    assert list(await store.export("s", after_seq=1)) == [second]
    assert tuple(await store.load("s")) == notes(1, "a", "b")
    assert list(await store.export("unknown")) == []


# Deletion.


@pytest.mark.feature("WICK-033")
async def test_delete_is_idempotent(
    store: SessionStore,
) -> None:
    await store.append([append(0, "a", "b", metadata={"n": 1})])
    await store.delete("s")
    await store.delete("s")
    assert tuple(await store.load("s")) == ()
    assert await store.info("s") is None
    assert await listed(store) == [[]]
    assert await store.append([append(0, "again")]) == [None]
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.metadata) == (1, {})


@pytest.mark.feature("ASDK-048")
async def test_pruning_spares_sessions_in_use(store: SessionStore) -> None:
    for name, ts in (("old", 1.0), ("used", 1.0), ("new", 10.0)):
        await store.append([append(0, "x", session=name, ts=ts)])
        if name != "used":
            store.released(name)
    assert list(await store.prune(10.0)) == ["old"]
    assert await listed(store) == [["new", "used"]]
    store.released("used")
    assert list(await store.prune(10.0)) == ["used"]
    assert await store.prune(10.0) == []


# Ids.


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "x" * 257, "\x85"])
async def test_invalid_session_ids_are_refused_everywhere(store: SessionStore, name: str) -> None:
    [outcome, other] = await store.append([append(0, "a", session=name), append(0, "a")])
    assert isinstance(outcome, SessionStoreError)
    assert "session id" in str(outcome)
    assert other is None
    for call in (store.load, store.export, store.info, store.delete):
        with pytest.raises(SessionStoreError, match="session id"):
            await call(name)
    with pytest.raises(SessionStoreError, match="session id"):
        await store.annotate(name, {"n": 1})
    store.released(name)
    store.evicted(name)


async def test_ids_that_look_alike_are_different_sessions(store: SessionStore) -> None:
    names = ["A", "a", "a.", "a ", "../a", "/a", "%61", "CON", "con", "con.txt", ".", "..", "ä"]
    names += ["a\u0308", "x" * 256, "x" * 255, "\U0001f600" * 256, "~", "-", "a/b", "a\\b", "a:b"]
    for name in names:
        assert await store.append([append(0, name, session=name)]) == [None]
    for name in names:
        assert tuple(await store.load(name)) == notes(1, name, session=name)
    found = await store.list_sessions(limit=100)
    assert sorted(info.session_id for info in found.sessions) == sorted(names)


@pytest.mark.parametrize("unopened", ["SqliteStore", "JsonlStore"], indirect=True)
async def test_kept_results_are_deleted_with_session(store: SessionStore) -> None:
    assert isinstance(store, ResultStore)
    for session in ("s", "other"):
        assert await store.append([append(0, "a", session=session)]) == [None]
        await store.keep_result(session, "call/../1", [b"abc", b"def"])
    assert await store.read_result("s", "call/../1", 2, 3) == b"cde"
    assert await store.read_result("s", "call/../1", 6, 3) == b""
    assert await store.read_result("s", "call-2", 0, 3) is None
    await store.keep_result("s", "call/../1", [b"new"])
    assert await store.read_result("s", "call/../1", 0, 9) == b"new"
    await store.delete("s")
    assert await store.read_result("s", "call/../1", 0, 9) is None
    store.released("other")
    assert list(await store.prune(math.inf)) == ["other"]
    assert await store.read_result("other", "call/../1", 0, 9) is None

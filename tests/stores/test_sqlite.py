"""Features of SqliteStore alone: its file, disk errors, long logs and listings by labels."""

import math
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.abc import LogAppend
from agent_actors.domain.events import UnreadableEvent
from agent_actors.domain.json import JsonObject
from agent_actors.domain.session import JsonScalar, SessionOrder
from agent_actors.errors import SessionStoreError
from agent_actors.stores import _sqlite_listing, _sqlite_log
from agent_actors.stores._sqlite_core import SqliteCore
from agent_actors.stores._sqlite_schema import APPLICATION_ID, MIGRATIONS
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel
from tests.contracts.test_session_store import append, notes
from tests.runs.helpers import check_records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    made = await again(path)
    yield made
    await made.aclose()


async def again(path: Path) -> SqliteStore:
    made = SqliteStore(path, cleanup_period_days=math.inf)
    await made.open()
    return made


def inside(store: SqliteStore) -> sqlite3.Connection:
    core = store._core
    assert isinstance(core, SqliteCore)
    return core._connection()


@pytest.mark.feature("OAS-112")
async def test_session_continues_in_next_program(path: Path) -> None:
    model = ScriptedModel(["Rain.", "Sun."])
    options = AgentOptions(model="m", provider=model)
    expected: list[str | None] = []
    for prompt in ("And today?", "And tomorrow?"):
        async with open_runtime(store=SqliteStore(path)) as runtime:
            result = await runtime.run(prompt, options, session_id="s")
            expected = [message.content for message in result.messages]
    assert expected == ["And today?", "Rain.", "And tomorrow?", "Sun."]
    assert [message.content for message in model.requests[-1].messages] == expected[:-1]


# The file.


async def test_file_is_a_readable_database(store: SqliteStore, path: Path) -> None:
    await store.append([append(0, "a", "b", metadata={"cwd": "/srv"})])
    with sqlite3.connect(path) as other:
        rows = other.execute("SELECT session_id, last_seq, metadata FROM sessions").fetchall()
        [[lines]] = other.execute("SELECT lines FROM commits").fetchall()
        [mode] = other.execute("PRAGMA journal_mode").fetchone()
    other.close()
    assert rows == [("s", 2, '{"cwd":"/srv"}')]
    assert [line.count('"type":"notification"') for line in lines.split("\n")] == [1, 1]
    assert mode == "wal"


def database(path: Path, *statements: str) -> bytes:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["CREATE TABLE notes (text)"], "another program"),
        (["PRAGMA application_id = 7"], "another program"),
        (["PRAGMA user_version = 3"], "another program"),
        (
            [f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 999"],
            "newer version of agent_actors .schema 999",
        ),
    ],
)
def test_foreign_database_is_left_alone(path: Path, statements: list[str], expected: str) -> None:
    before = database(path, *statements)
    with pytest.raises(SessionStoreError, match=expected):
        trio.run(SqliteStore(path).open)
    assert path.read_bytes() == before


def test_non_database_is_left_alone(path: Path) -> None:
    path.write_bytes(b"no database, but a text of more than a hundred bytes " * 9)
    with pytest.raises(SessionStoreError, match="not a database"):
        trio.run(SqliteStore(path).open)
    assert path.read_bytes().startswith(b"no database")


async def test_older_file_is_upgraded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await again(path)
    await first.append([append(0, "a")])
    await first.aclose()
    more = (*MIGRATIONS, ("ALTER TABLE sessions ADD COLUMN extra TEXT",))
    monkeypatch.setattr("agent_actors.stores._sqlite_schema.MIGRATIONS", more)
    second = await again(path)
    assert tuple(await second.load("s")) == notes(1, "a")
    assert inside(second).execute("PRAGMA user_version").fetchone() == (len(more),)
    await second.aclose()


async def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await again(path)
    await first.append([append(0, "a")])
    await first.aclose()
    with monkeypatch.context() as patch:
        patch.setattr(
            "agent_actors.stores._sqlite_schema.MIGRATIONS",
            (*MIGRATIONS, ("CREATE TABLE half (x)", "NO STATEMENT")),
        )
        with pytest.raises(SessionStoreError, match="syntax error"):
            await SqliteStore(path).open()
    third = await again(path)
    assert tuple(await third.load("s")) == notes(1, "a")
    found = inside(third).execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchall()
    assert found == []
    await third.aclose()


async def test_missing_write_ahead_log_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoLog(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            return super().execute(sql.replace("journal_mode = WAL", "journal_mode = DELETE"))

    def connect(*_: object, **__: object) -> sqlite3.Connection:
        return NoLog(path, isolation_level=None, check_same_thread=False)

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(SessionStoreError, match=r"cannot use a write-ahead log here"):
        await SqliteStore(path).open()


# Disk errors.


async def test_full_disk_is_atomic_and_recovers(
    store: SqliteStore,
) -> None:
    await store.append([append(0, "a")])
    db = inside(store)
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
    large = "x" * 100_000
    full, small = await store.append([append(1, "b", large), append(0, "c", session="t")])
    assert isinstance(full, SessionStoreError)
    assert "full" in str(full)
    assert full.session_id == "s"
    assert small is None
    assert tuple(await store.load("s")) == notes(1, "a")
    assert tuple(await store.load("t")) == notes(1, "c", session="t")
    db.execute("PRAGMA max_page_count = 1000000")
    assert await store.append([append(1, "b", large)]) == [None]
    assert tuple(await store.load("s")) == notes(1, "a", "b", large)


async def test_read_error_is_reported_and_recovers(store: SqliteStore) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])
    inside(store).execute("PRAGMA query_only = 1")
    [outcome] = await store.append([append(1, "b")])
    assert isinstance(outcome, SessionStoreError)
    assert "readonly" in str(outcome)
    for call in (store.annotate("s", {"n": 2}), store.delete("s")):
        with pytest.raises(SessionStoreError, match="readonly"):
            await call
    inside(store).execute("PRAGMA query_only = 0")
    assert await store.append([append(1, "b")]) == [None]
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.metadata) == (2, {"n": 1})


async def test_full_disk_fails_only_its_run(path: Path) -> None:
    store = SqliteStore(path)
    options = AgentOptions(model="m", provider=ScriptedModel(lambda _: "Fine."))
    async with open_runtime(store=store) as runtime:
        await runtime.run("hi", options, session_id="s")
        db = inside(store)
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(SessionStoreError, match="full") as caught:
            await runtime.run("x" * 100_000, options, session_id="s")
        assert caught.value.session_id == "s"
        assert (await runtime.run("hi", options, session_id="t")).text == "Fine."
        db.execute("PRAGMA max_page_count = 1000000")
        result = await runtime.run("and now?", options, session_id="s")
        assert [message.content for message in result.messages] == [
            "hi",
            "Fine.",
            "and now?",
            "Fine.",
        ]
        check_records(await store.load("s"))


async def test_long_lock_wait_is_an_error(store: SqliteStore, path: Path) -> None:
    inside(store).execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    [outcome] = await store.append([append(0, "a")])
    assert isinstance(outcome, SessionStoreError)
    assert "locked" in str(outcome)
    other.execute("ROLLBACK")
    other.close()
    assert await store.append([append(0, "a")]) == [None]


async def test_missing_records_are_detected(store: SqliteStore) -> None:
    for position in range(3):
        await store.append([append(position, "x")])
    inside(store).execute("DELETE FROM commits WHERE first_seq = 2")
    with pytest.raises(SessionStoreError, match="records 1 to 2 are missing"):
        await store.load("s")
    assert len(await store.load("s", after_seq=2)) == 1


def test_release_after_close_does_nothing(path: Path) -> None:
    core = SqliteCore(path, sync=False)
    core.close()
    core.open()
    core.close()
    core.release("s")
    core.close()


# Long logs.


async def test_a_long_log_is_read_in_pieces(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_log, "_READ_AT_ONCE", 3)
    for position in range(0, 20, 2):
        await store.append([append(position, str(position + 1), str(position + 2))])
    for after in range(22):
        records = await store.load("s", after_seq=after)
        assert [record.seq for record in records] == list(range(after + 1, 21))


async def test_huge_log_is_read_in_parts(store: SqliteStore) -> None:
    for position in range(4):
        await store.append([append(position, "x" * 3_000)])
    inside(store).setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    assert len(await store.load("s")) == 4
    assert len(await store.load("s", after_seq=1)) == 3


async def test_a_large_batch_is_one_transaction(store: SqliteStore) -> None:
    names = [str(number) for number in range(200)]
    outcomes = await store.append(
        [append(0, "a", "b", session=name, metadata={"name": name}) for name in names]
    )
    assert outcomes == [None] * 200
    for name in names:
        store.evicted(name)
    assert await store.append([append(2, "c", session=name) for name in names]) == [None] * 200
    assert tuple(await store.load("77")) == notes(1, "a", "b", "c", session="77")
    page = await store.list_sessions(where={"name": "77"})
    assert [info.session_id for info in page.sessions] == ["77"]


# Listings by labels.


def labels(everywhere: str, *, half: bool, rare: int) -> JsonObject:
    return {"all": everywhere, "half": half, "rare": rare}


ORDERS: Final[tuple[SessionOrder, ...]] = ("created", "updated")
FOUND: Final[list[tuple[dict[str, JsonScalar], list[str]]]] = [
    ({"all": "x", "half": True, "rare": 1}, ["06", "04"]),
    ({"rare": 2}, ["11", "10", "09", "08"]),
    ({"all": "x", "half": False, "none": None, "rare": 0}, ["03", "01"]),
]


async def test_listing_filters_by_all_labels(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite_listing, "_RARE", 4)
    monkeypatch.setattr(_sqlite_listing, "_SORTED", 4)
    for number in range(12):
        known = labels("x", half=number % 2 == 0, rare=number // 4)
        await store.append(
            [append(0, "a", session=f"{number:02}", ts=float(number), metadata=known)]
        )
    for order in ORDERS:
        for where, names in FOUND:
            page = await store.list_sessions(where=where, order=order)
            assert [info.session_id for info in page.sessions] == names


async def test_long_label_is_found_by_digest(store: SqliteStore) -> None:
    for name in ("a", "b"):
        known = {"prompt": name * 1_000}
        await store.append([append(0, "x", session=name, metadata=known)])
    page = await store.list_sessions(where={"prompt": "b" * 1_000})
    assert [info.session_id for info in page.sessions] == ["b"]


# Locks.


async def test_opening_keeps_locks_of_this_process(path: Path) -> None:
    one = await again(path)
    await one.append([append(0, "a")])
    two = await again(path)
    await two.aclose()
    # Another process would remove the write-ahead log if it could lock these bytes of the file.
    command = [sys.executable, "-c", LOCKER, str(path)]
    found = await trio.run_process(command, capture_stdout=True)
    assert found.stdout == b"locked by others\n"
    await one.aclose()


LOCKER: Final = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
except OSError:
    print("locked by others")
"""


# Damaged rows.


@pytest.mark.parametrize(
    "content", ["{", "", "[1]", "3", 3, 0.5, b"{}\xff", b"\xff", '{"a":' * 200]
)
async def test_damaged_metadata_is_isolated(
    store: SqliteStore, path: Path, content: object
) -> None:
    names = ("s", "t")
    await store.append([append(0, "a", session=name, metadata={"k": "v"}) for name in names])
    inside(store).execute("UPDATE sessions SET metadata = ? WHERE session_id = 's'", (content,))
    store.evicted("s")
    store.evicted("t")
    page = await store.list_sessions()
    assert {one.session_id: one.metadata for one in page.sessions} == {"s": {}, "t": {"k": "v"}}
    [found] = (await store.list_sessions(where={"k": "v"})).sessions
    assert found.session_id == "t"
    [damage] = await store.damage("s")
    assert str(damage) == "the metadata cannot be read and is lost"
    assert await store.damage("t") == ()
    assert await store.append([append(1, "b", session=name) for name in names]) == [None, None]
    assert await store.damage("s") == ()
    [backup] = path.parent.glob("*.damaged-1")
    assert backup.read_bytes() == (content if isinstance(content, bytes) else str(content).encode())
    assert inside(store).execute("SELECT count(*) FROM labels").fetchone() == (1,)
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.metadata) == (2, {})


@pytest.mark.parametrize("way", ["annotate", "repair", "delete"])
async def test_damaged_metadata_can_be_replaced(store: SqliteStore, way: str) -> None:
    await store.append([append(0, "a", metadata={"k": "v"})])
    inside(store).execute("UPDATE sessions SET metadata = '{'")
    store.evicted("s")
    if way == "annotate":
        assert await store.annotate("s", {"n": 1})
    elif way == "repair":
        repaired = await store.repair("s")
        assert repaired.backup is not None
        assert len(repaired.damage) == 1
    else:
        await store.delete("s")
    assert await store.damage("s") == ()
    assert inside(store).execute("SELECT count(*) FROM labels").fetchone() == (way == "annotate",)
    info = await store.info("s")
    assert (info is None) == (way == "delete")
    assert info is None or info.metadata == ({"n": 1} if way == "annotate" else {})


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("created_at", "its times"),
        ("updated_at", "its times"),
        ("last_seq", "its position"),
        ("last_commit", "its position"),
    ],
)
async def test_damaged_row_is_isolated(
    store: SqliteStore, column: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("s", "t")
    await store.append([append(0, "a", session=name, metadata={"k": 1}) for name in names])
    inside(store).execute(f"UPDATE sessions SET {column} = 'x' WHERE session_id = 's'")
    store.evicted("s")
    store.evicted("t")
    if column != "last_commit":
        for page in (await store.list_sessions(), await store.list_sessions(where={"k": 1})):
            assert [one.session_id for one in page.sessions] == ["t"]
        assert "skipped a damaged row" in caplog.text
        with pytest.raises(SessionStoreError, match=expected):
            await store.info("s")
        [damage] = await store.damage("s")
        assert expected in damage.reason
    if expected == "its position":
        with pytest.raises(SessionStoreError, match=expected):
            await store.load("s")
    bad, good = await store.append([append(1, "b", session=name) for name in names])
    assert isinstance(bad, SessionStoreError)
    assert expected in str(bad)
    assert good is None
    for call in (store.annotate("s", {"n": 1}), store.repair("s")):
        with pytest.raises(SessionStoreError, match=expected):
            await call
    await store.delete("s")
    assert inside(store).execute("SELECT count(*) FROM commits").fetchone() == (2,)
    assert await store.append([append(0, "again")]) == [None]


async def test_failed_prune_releases_sessions(store: SqliteStore, path: Path) -> None:
    await store.append([append(0, "a")])
    store.released("s")
    inside(store).execute(
        "CREATE TRIGGER keep BEFORE DELETE ON sessions BEGIN SELECT RAISE(ABORT, 'kept'); END"
    )
    with pytest.raises(SessionStoreError, match="kept"):
        await store.prune(math.inf)
    other = await again(path)
    assert await other.load("s")
    await other.aclose()


async def test_damaged_id_is_skipped(store: SqliteStore) -> None:
    await store.append([append(0, "a", session=name) for name in ("s", "t")])
    [number] = inside(store).execute("SELECT min(number) FROM sessions").fetchone()
    damaged = "UPDATE sessions SET session_id = {} WHERE number = {}"
    inside(store).execute(damaged.format("x'61'", number))
    assert await store.prune(0.5) == []
    inside(store).execute(damaged.format("CAST(x'ff' AS TEXT)", number))
    [info] = (await store.list_sessions()).sessions
    assert info.session_id == "t"
    store.evicted("t")
    assert list(await store.prune(2.0)) == ["t"]


# Separators.


async def test_separator_in_damaged_line_keeps_order(store: SqliteStore) -> None:
    await store.append([append(0, "a", "b", "c")])
    await store.append([append(3, "d")])
    inside(store).execute(
        "UPDATE commits SET lines = replace(lines, '\"text\":\"b\"', char(30) || 'x' || char(30)) "
        "WHERE first_seq = 1"
    )
    first, bad, *rest = await store.load("s")
    assert (first, *rest) == (*notes(1, "a"), *notes(3, "c", "d"))
    assert isinstance(bad, UnreadableEvent)
    assert bad.raw.count(b"\x1e") == 2
    [damage] = await store.damage("s")
    assert damage.seq == 2
    assert (await store.repair("s")).damage == (damage,)
    assert len(await store.load("s")) == 4


async def test_unreadable_record_with_separator_is_kept(store: SqliteStore) -> None:
    bad = UnreadableEvent("s", 2, "a \x1e in the reason", b"raw \x1e\n\0")
    [first, _, last] = notes(1, "a", "b", "c")
    assert await store.append([LogAppend("s", 0, 1, (first, bad, last))]) == [None]
    assert tuple(await store.load("s")) == (first, bad, last)
    assert await store.damage("s") == ()

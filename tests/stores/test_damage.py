"""Logs that are damaged on disk are read, checked and repaired."""

import logging
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import open_runtime
from agent_actors.codec.events import encode_event, loads_event
from agent_actors.domain.events import AnyEvent, Event, Notification, UnreadableEvent
from agent_actors.errors import SessionStoreError
from agent_actors.sessions import fold
from agent_actors.sessions.alignment import aligned
from agent_actors.stores.disk.threaded_store import DiskStore
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import call
from tests.contracts.test_session_store import append, notes
from tests.program_helpers import talking
from tests.runs.helpers import check_history
from tests.runtime.sessions.helpers import DISK, talk, talker

ROOT: Final = Path(__file__).parents[2]
ZEROS: Final = b"\0" * 4096


def stores(kind: str, path: Path) -> DiskStore:
    return {"SqliteStore": SqliteStore, "JsonlStore": JsonlStore}[kind](
        path, cleanup_period_days=math.inf
    )


def log_of(path: Path, session_id: str = "s") -> Path:
    return path / "sessions" / session_id / "events.jsonl"


Change = Callable[[bytes], bytes]


def damage(kind: str, path: Path, change: Change) -> None:
    """Change the data of the store's only session; in SQLite, change each commit separately."""
    if kind == "JsonlStore":
        log_of(path).write_bytes(change(log_of(path).read_bytes()))
        return
    with sqlite3.connect(path) as db:
        for number, text in db.execute("SELECT id, CAST(lines AS BLOB) FROM commits").fetchall():
            new = change(text)
            if new != text:
                sql = "UPDATE commits SET lines = CAST(? AS TEXT) WHERE id = ?"
                db.execute(sql, (new, number))
    db.close()


def seqs(records: Sequence[AnyEvent]) -> list[int | None]:
    return [record.seq for record in records]


async def make_log(kind: str, path: Path) -> tuple[AnyEvent, ...]:
    """Create a session of three runs with calls, and return its records."""
    async with open_runtime(store=DISK[kind](path)) as runtime:
        for number in range(3):
            use = [call("echo", {"text": f"t{number}"})]
            await talk(runtime, use, f"Answer {number}.", prompt=f"Question {number}?")
        return await runtime.sessions.records("s")


on_disk = pytest.mark.parametrize("kind", DISK)


@on_disk
async def test_session_survives_record_with_wrong_types(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store"
    before = await make_log(kind, path)
    damage(kind, path, lambda text: text.replace(b'"text":"Question 1?"', b'"text":1', 1))
    async with open_runtime(store=DISK[kind](path)) as runtime:
        sessions = runtime.sessions
        records = await sessions.records("s")
        [bad] = [record for record in records if isinstance(record, UnreadableEvent)]
        assert "user.message event: Expected `str`, got `int` - at `$.text`" in bad.reason
        assert [one for one in records if one is not bad] == [
            one for one in before if one.seq != bad.seq
        ]
        snapshot = await sessions.snapshot("s")
        assert snapshot is not None
        assert snapshot.unreadable == (bad,)
        check_history(snapshot.messages)
        with caplog.at_level(logging.WARNING, "agent_actors.stores"):
            await talk(runtime, "Fine.")
        assert f"the first is record {bad.seq}: user.message event" in caplog.text
        await talk(runtime, "Fine again.")
        notices = [one for one in await sessions.records("s") if isinstance(one, Notification)]
        assert [one.data for one in notices] == [{"unreadable_records": [bad.seq]}]
        await sessions.rewind("s", bad.seq + 1)
        await sessions.fork("s", new_id="fork")
        forked = await sessions.history("fork")
        assert forked is not None
        check_history(forked)
        lines = await sessions.export("s")
        assert loads_event(lines[bad.seq - 1]) == bad
        await sessions.import_records(lines, session_id="copy")
        [copied] = [one for one in await sessions.records("copy") if one.seq == bad.seq]
        assert copied == attrs.evolve(bad, session_id="copy")


@on_disk
@pytest.mark.parametrize(
    "line", [b"{", b"", b"\xff\xfe", b'{"seq":2}', b"[" * 3000, ZEROS, b"\x1e", b"3"]
)
async def test_damaged_line_is_repaired(kind: str, tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "store"
    store = stores(kind, path)
    await store.open()
    for seq, text in enumerate("abcde"):
        await store.append([append(seq, text), append(seq, text, session="t")])
    await store.aclose()
    target = encode_event(notes(2, "b")[0])
    damage(kind, path, lambda text: text.replace(target, line))
    await store.open()
    one, *rest = notes(1, "a", "b", "c", "d", "e")
    first, bad, *others = await store.load("s")
    assert (first, others) == (one, rest[1:])
    assert isinstance(bad, UnreadableEvent)
    [found] = await store.damage("s")
    assert found.seq == 2
    assert found.offset == (len(encode_event(one)) + 1 if kind == "JsonlStore" else None)
    repaired = await store.repair("s")
    assert repaired.damage == (found,)
    assert repaired.backup is not None
    assert line in await trio.Path(repaired.backup).read_bytes()
    assert await store.damage("s") == ()
    assert (await store.repair("s")).backup is None
    first, kept, *others = await store.load("s")
    assert (first, others) == (one, rest[1:])
    assert isinstance(kept, UnreadableEvent)
    assert kept.raw == line
    assert await store.append([append(5, "f")]) == [None]
    assert await store.damage("t") == ()
    await store.delete("s")
    await store.aclose()
    if kind == "JsonlStore":
        assert not log_of(path).parent.exists()


async def test_zeroed_page_hides_the_records_under_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = stores("JsonlStore", path)
    await store.open()
    for seq in range(60):
        await store.append([append(seq, "x" * 100)])
    await store.aclose()
    text = log_of(path).read_bytes()
    log_of(path).write_bytes(text[:4096] + ZEROS + text[8192:])
    await store.open()
    records = await store.load("s")
    assert seqs(records) == list(range(1, 61))
    bad = [record for record in records if isinstance(record, UnreadableEvent)]
    assert 15 < len(bad) < 25
    assert b"\0" * 4096 in bad[0].raw
    assert not any(record.raw for record in bad[1:])
    assert (await store.repair("s")).damage
    assert await store.damage("s") == ()
    assert [r for r in await store.load("s") if isinstance(r, Event)] == [
        r for r in records if isinstance(r, Event)
    ]
    await store.aclose()


@on_disk
async def test_lost_records_fail_the_session_until_repaired(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_runtime(store=DISK[kind](path)) as runtime:
        await talk(runtime, "One.")
        await talk(runtime, "Two.")
        count = len(await runtime.sessions.records("s"))
    if kind == "JsonlStore":
        lines = log_of(path).read_bytes().splitlines(keepends=True)
        log_of(path).write_bytes(b"".join(lines[:1] + lines[3:]))
    else:
        with sqlite3.connect(path) as db:
            db.execute("DELETE FROM commits WHERE id = 2")
        db.close()
    async with open_runtime(store=DISK[kind](path)) as runtime:
        with pytest.raises(SessionStoreError, match=r"missing from the log.*sessions repair"):
            await runtime.run("More?", talker("Three."), session_id="s")
        assert any("left in the log" in one for one in await runtime.sessions.check("s"))
        assert (await runtime.sessions.repair("s")).damage
        assert await runtime.sessions.check("s") == ()
        await talk(runtime, "Three.")
        records = await runtime.sessions.records("s")
        assert seqs(records) == list(range(1, len(records) + 1))
        assert len(records) > count
        assert len([one for one in records if isinstance(one, Event)]) >= 2


# Any damage.

LINES: Final = tuple(encode_event(note) for note in notes(1, *(f"text {n}" for n in range(12))))


@st.composite
def damages(draw: st.DrawFn, text: bytes) -> bytes:
    """Generate a damaged copy of a log."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(text) - 1, 0)))
        match draw(st.sampled_from(["flip", "zero", "cut", "repeat", "remove", "garbage"])):
            case "flip" if text:
                byte = text[at] ^ (1 << draw(st.integers(0, 7)))
                text = text[:at] + bytes([byte]) + text[at + 1 :]
            case "zero":
                size = draw(st.sampled_from([1, 64, 512]))
                text = text[:at] + b"\0" * len(text[at : at + size]) + text[at + size :]
            case "cut":
                text = text[:at]
            case "repeat":
                lines = text.splitlines(keepends=True) or [b"\n"]
                which = draw(st.integers(0, len(lines) - 1))
                text = b"".join([*lines[: which + 1], *lines[which:]])
            case "remove":
                text = text[:at] + text[at + draw(st.integers(1, 300)) :]
            case _:
                text = text[:at] + draw(st.binary(max_size=20)) + text[at:]
    return text


@given(damages(b"".join(line + b"\n" for line in LINES)))
def test_any_damage_is_isolated(text: bytes) -> None:
    lines = text.split(b"\n")[:-1]
    found = aligned("s", lines)
    records = [loads_event(line) for line in found.lines]
    assert seqs(records) == list(range(1, len(records) + 1))
    check_history(fold(records).history())
    again = aligned("s", found.lines)
    assert (again.lines, again.damage) == (found.lines, ())
    if not found.damage:
        assert found.lines == tuple(lines)


@given(damages(b"".join(line + b"\n" for line in LINES)))
def test_damaged_file_is_read_and_repaired(text: bytes) -> None:
    async def look() -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "store"
            store = stores("JsonlStore", path)
            await store.open()
            await store.append([append(0, "x", metadata={"n": 1})])
            await store.aclose()
            log_of(path).write_bytes(text)
            await store.open()
            found = await store.damage("s")
            try:
                read = [one for one in await store.load("s") if isinstance(one, Event)]
            except SessionStoreError:
                assert any(one.lost for one in found)
                read = []
            repaired = await store.repair("s")
            assert not found or repaired.backup or "incomplete line" in found[0].reason
            assert await store.damage("s") == ()
            after = await store.load("s")
            assert [one for one in after if isinstance(one, Event)][: len(read)] == read
            assert await store.append([append(len(after), "more")]) == [None]
            await store.aclose()

    trio.run(look)


@on_disk
async def test_garbage_affects_only_its_session(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    await make_log(kind, path)
    damage(kind, path, lambda text: b"\n".join([b"garbage"] * (text.count(b"\n") or 1)) + b"\n")
    async with open_runtime(store=DISK[kind](path)) as runtime:
        await talk(runtime, "Fine.", session_id="t")
        assert {one.session_id for one in (await runtime.list_sessions()).sessions} >= {"t"}
        assert await runtime.sessions.check("s")
        await talk(runtime, "Fine.")
        history = await runtime.sessions.history("s")
        assert history is not None
        check_history(history)


# Kills.

REPAIRER: Final = """
import sys, trio
from pathlib import Path
from tests.stores.test_damage import stores
async def main():
    store = stores(sys.argv[1], Path(sys.argv[2]))
    await store.open()
    print("ready", flush=True)
    await store.repair("s")
trio.run(main)
"""


@pytest.mark.usefixtures("fork_server")
@on_disk
def test_killed_repair_leaves_old_or_new_log(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"

    async def make() -> None:
        store = stores(kind, path)
        await store.open()
        for seq in range(0, 3000, 100):
            await store.append([append(seq, *(["x" * 200] * 100))])
        await store.aclose()

    async def look() -> None:
        store = stores(kind, path)
        await store.open()
        records = await store.load("s")
        assert seqs(records) == list(range(1, 3001))
        [bad] = [one for one in records if isinstance(one, UnreadableEvent)]
        assert (bad.seq, b'"seq":"?"' in bad.raw) == (1205, True)
        await store.aclose()

    trio.run(make)
    damage(kind, path, lambda text: text.replace(b'"seq":1205', b'"seq":"?"'))
    for pause in (0.0, 0.005, 0.01, 0.02, 0.04):
        with talking(["-c", REPAIRER, kind, str(path)], cwd=ROOT) as (_, _, output):
            assert output.readline() == "ready\n"
            time.sleep(pause)
        trio.run(look)

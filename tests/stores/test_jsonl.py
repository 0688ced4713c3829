"""Features of JsonlStore alone: its files, torn lines, links and disk errors."""

import json
import logging
import math
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.events import UnreadableEvent
from agent_actors.domain.json import JsonObject
from agent_actors.errors import SessionStoreError
from agent_actors.stores import _jsonl_core
from agent_actors.stores._jsonl_core import JsonlCore
from agent_actors.stores.disk.safe_files import write_all
from agent_actors.stores.jsonl import JsonlStore, Repair
from agent_actors.testing import ScriptedModel
from tests.contracts.test_session_store import append, notes
from tests.runs.helpers import check_records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[JsonlStore]:
    made = await again(path)
    yield made
    await made.aclose()


async def again(path: Path) -> JsonlStore:
    store = JsonlStore(path, cleanup_period_days=math.inf)
    await store.open()
    return store


# The files.

KNOWN: Final[JsonObject] = {
    "cwd": "/srv",
    "provider_name": "ollama",
    "model": "m",
    "setting_sources": ["project"],
    "allowed_tools": ["read"],
    "parent_session_id": "p",
    "parent_tool_use_id": "call_1",
    "agent_name": "helper",
}


@pytest.mark.feature(
    "OAGS-070",
    "OAGS-071",
    "OAGS-072",
    "OAGS-073",
    "OAGS-074",
    "OAGS-076",
    "OAGS-077",
    "OAGS-078",
    "OAGS-079",
)
async def test_session_is_a_directory_with_events(store: JsonlStore, path: Path) -> None:
    await store.append([append(0, "a", "b", session="s1", ts=5.5, metadata=KNOWN)])
    folder = path / "sessions" / "s1"
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["a", "b"]
    text = (folder / "meta.json").read_text(encoding="utf-8")
    meta = {"session_id": "s1", "created_at": 5.5, "metadata": KNOWN}
    assert json.loads(text) == meta
    assert text == json.dumps(meta, indent=2) + "\n"
    assert sorted(one.name for one in folder.iterdir()) == ["events.jsonl", "meta.json"]


async def test_foreign_meta_fields_are_kept(store: JsonlStore, path: Path) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])
    meta = path / "sessions" / "s" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "theirs": [1]}))
    await store.append([append(1, "b", metadata={"n": None, "m": 2})])
    found = json.loads(meta.read_text())
    assert found["theirs"] == [1]
    assert found["metadata"] == {"m": 2}


async def test_missing_meta_is_recreated(store: JsonlStore, path: Path) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])
    (path / "sessions" / "s" / "meta.json").unlink()
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.metadata) == (1, {})
    assert (await store.list_sessions()).sessions == (info,)
    assert await store.append([append(1, "b", metadata={"n": 2})]) == [None]
    [info] = (await store.list_sessions()).sessions
    assert (info.last_seq, info.metadata) == (2, {"n": 2})


async def test_foreign_entries_are_not_listed(store: JsonlStore, path: Path) -> None:
    await store.append([append(0, "a"), append(0, "c", session="u")])
    sessions = path / "sessions"
    (sessions / "a file").write_text("x")
    (sessions / "empty").mkdir()
    (sessions / "link").symlink_to(sessions / "s")
    (sessions / "renamed").mkdir()
    (sessions / "renamed" / "meta.json").write_bytes((sessions / "s" / "meta.json").read_bytes())
    (sessions / "u" / "meta.json").write_text('{"session_id": "", "created_at": 1}')
    assert [info.session_id for info in (await store.list_sessions()).sessions] == ["s"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"session_id": 1}', "\0" * 100])
async def test_damaged_meta_loses_only_metadata(store: JsonlStore, path: Path, text: str) -> None:
    await store.append([append(0, "a", ts=5.0, metadata={"n": 1})])
    folder = path / "sessions" / "s"
    (folder / "meta.json").write_text(text)
    info = await store.info("s")
    assert info is not None
    assert (info.created_at, info.metadata) == (5.0, {})
    assert (await store.list_sessions()).sessions == (info,)
    [damage] = await store.damage("s")
    assert str(damage) == "meta.json cannot be read; the metadata is lost"
    assert await store.append([append(1, "b", metadata={"n": 2})]) == [None]
    assert (folder / "meta.json.damaged-1").read_text() == text
    assert await store.damage("s") == ()
    (folder / "meta.json").write_text(text)
    assert (await store.repair("s")).damage == (damage,)
    assert await store.damage("s") == ()
    await store.delete("s")
    assert not folder.exists()


def test_foreign_directory_is_refused(path: Path) -> None:
    path.mkdir()
    (path / "epoch").write_text("a diary")
    with pytest.raises(SessionStoreError, match="contains no number"):
        trio.run(JsonlStore(path).open)
    assert (path / "epoch").read_text() == "a diary"


# Torn lines.


@pytest.mark.parametrize("torn", [b"{", b'{"type":"notification","seq":3', b"\0" * 50_000, b"x"])
async def test_torn_line_is_cut_and_reported(
    path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = await again(path)
    await store.append([append(0, "a", "b")])
    await store.aclose()
    events = path / "sessions" / "s" / "events.jsonl"
    whole = events.read_bytes()
    events.write_bytes(whole + torn)
    store = await again(path)
    assert len(await store.export("s")) == 2
    info = await store.info("s")
    assert info is not None
    assert info.last_seq == 2
    assert not store.repairs
    with caplog.at_level(logging.WARNING, "agent_actors.stores"):
        assert tuple(await store.load("s")) == notes(1, "a", "b")
    assert list(store.repairs) == [Repair("s", 2, len(torn))]
    assert f"removed {len(torn)} bytes after record 2" in caplog.text
    assert events.read_bytes() == whole
    assert await store.append([append(2, "c")]) == [None]
    await store.aclose()


async def test_torn_first_line_leaves_empty_session(path: Path) -> None:
    store = await again(path)
    await store.append([append(0, "a")])
    await store.aclose()
    events = path / "sessions" / "s" / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-1])
    store = await again(path)
    assert await store.info("s") is None
    assert await store.append([append(0, "again")]) == [None]
    assert len(store.repairs) == 1
    assert tuple(await store.load("s")) == notes(1, "again")
    await store.aclose()


async def test_a_long_last_record_is_found(store: JsonlStore) -> None:
    await store.append([append(0, "a", "x" * 200_000)])
    store.evicted("s")
    info = await store.info("s")
    assert info is not None
    assert info.last_seq == 2
    assert await store.append([append(2, "b")]) == [None]


async def test_invalid_last_line_keeps_its_place(store: JsonlStore, path: Path) -> None:
    await store.append([append(0, "a")])
    events = path / "sessions" / "s" / "events.jsonl"
    events.write_bytes(events.read_bytes() + b"no record\n")
    store.evicted("s")
    first, second = await store.load("s")
    assert (first,) == notes(1, "a")
    assert isinstance(second, UnreadableEvent)
    assert (second.seq, second.raw) == (2, b"no record")
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.updated_at) == (2, 1.0)
    assert await store.append([append(2, "b")]) == [None]
    assert [record.seq for record in await store.load("s")] == [1, 2, 3]


# Links.


async def test_no_link_leads_out_of_the_store(
    store: JsonlStore, path: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "events.jsonl").write_text("precious\n")
    sessions = path / "sessions"
    (sessions / "s").symlink_to(outside)
    (sessions / "t").mkdir()
    (sessions / "t" / "events.jsonl").symlink_to(outside / "events.jsonl")
    (sessions / "t" / "meta.json").symlink_to(outside / "new.json")
    for name in ("s", "t"):
        for call in (store.load, store.export, store.info):
            with pytest.raises(SessionStoreError):
                await call(name)
        [outcome] = await store.append([append(0, "a", session=name)])
        assert isinstance(outcome, SessionStoreError)
        if name == "s":
            with pytest.raises(SessionStoreError):
                await store.delete(name)
    await store.delete("t")
    assert not (sessions / "t").exists()
    assert [one.name for one in outside.iterdir()] == ["events.jsonl"]
    assert (outside / "events.jsonl").read_text() == "precious\n"


async def test_fifo_instead_of_file_is_refused(store: JsonlStore, path: Path) -> None:
    await store.append([append(0, "a")])
    meta = path / "sessions" / "s" / "meta.json"
    meta.unlink()
    os.mkfifo(meta)
    with pytest.raises(SessionStoreError):
        await store.info("s")
    meta.unlink()


# Changes by other programs.


def cut(events: Path) -> None:
    os.truncate(events, 10)


def extend(events: Path) -> None:
    events.write_bytes(events.read_bytes() + b"more\n")


def replace(events: Path) -> None:
    text = events.read_bytes()
    events.rename(events.with_name("other"))
    events.write_bytes(text)


def remove_folder(events: Path) -> None:
    shutil.rmtree(events.parent)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Path.unlink, "deleted"),
        (remove_folder, "deleted"),
        (cut, "changed from [0-9]+ to 10 bytes"),
        (extend, "changed from [0-9]+ to [0-9]+ bytes"),
        (replace, "replaced by another file"),
    ],
)
@pytest.mark.parametrize("metadata", [None, {"n": 2}])
async def test_changed_log_fails_the_commit(
    store: JsonlStore,
    path: Path,
    change: Callable[[Path], None],
    expected: str,
    metadata: JsonObject | None,
) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])
    await store.append([append(1, "b")])
    events = path / "sessions" / "s" / "events.jsonl"
    change(events)
    before = events.read_bytes() if events.exists() else None
    outcome, other = await store.append(
        [append(2, "c", metadata=metadata), append(0, "x", session="t")]
    )
    assert isinstance(outcome, SessionStoreError)
    assert re.search(f"events.jsonl was {expected} by another program", str(outcome))
    assert other is None
    assert (events.read_bytes() if events.exists() else None) == before
    if events.parent.exists():
        assert json.loads((events.parent / "meta.json").read_text())["metadata"] == {"n": 1}
    last = len(await store.load("s"))
    assert await store.append([append(last, "d")]) == [None]
    records = await store.load("s")
    assert [record.seq for record in records] == list(range(1, last + 2))
    assert b"\0" not in events.read_bytes()


async def test_log_of_new_session_must_not_exist(store: JsonlStore, path: Path) -> None:
    assert list(await store.load("s")) == []
    (path / "sessions" / "s").mkdir()
    (path / "sessions" / "s" / "events.jsonl").write_bytes(b"precious\n")
    [outcome] = await store.append([append(0, "a")])
    assert isinstance(outcome, SessionStoreError)
    assert "changed from 0 to 9 bytes" in str(outcome)
    assert (path / "sessions" / "s" / "events.jsonl").read_bytes() == b"precious\n"


async def test_run_reports_deleted_log(path: Path) -> None:
    options = AgentOptions(model="m", provider=ScriptedModel(lambda _: "Fine."))
    async with open_runtime(store=JsonlStore(path)) as runtime:
        await runtime.run("hi", options, session_id="s")
        (path / "sessions" / "s" / "events.jsonl").unlink()
        with pytest.raises(SessionStoreError, match=r"events\.jsonl was deleted"):
            await runtime.run("hi", options, session_id="s")
        result = await runtime.run("again", options, session_id="s")
        assert [message.content for message in result.messages] == ["again", "Fine."]
        check_records(await runtime.sessions.records("s"))


# Disk errors.


@pytest.mark.parametrize("written", [0, 1, 100, 10_000])
async def test_full_disk_is_atomic_and_recovers(
    store: JsonlStore, path: Path, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])
    before = (path / "sessions" / "s" / "events.jsonl").read_bytes()

    def full(found: int, data: bytes) -> None:
        os.write(found, data[:written])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_jsonl_core, "write_all", full)
        outcomes = await store.append(
            [append(1, "b", "c", metadata={"n": 2}), append(0, "x", session="t")]
        )
        assert all(isinstance(outcome, SessionStoreError) for outcome in outcomes)
        assert "No space left" in str(outcomes[0])
    assert (path / "sessions" / "s" / "events.jsonl").read_bytes() == before
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.metadata) == (1, {"n": 1})
    assert await store.info("t") is None
    assert await store.append([append(1, "b", "c"), append(0, "x", session="t")]) == [None, None]
    assert tuple(await store.load("s")) == notes(1, "a", "b", "c")
    assert store.repairs == ()


async def test_leftovers_are_cut_after_full_disk(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([append(0, "a")])

    def full(found: int, data: bytes) -> None:
        os.write(found, data[:40])
        raise OSError(28, "No space left on device")

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(_jsonl_core, "write_all", full)
        patch.setattr(os, "ftruncate", fails)
        [outcome] = await store.append([append(1, "b")])
        assert isinstance(outcome, SessionStoreError)
    assert await store.append([append(1, "b")]) == [None]
    assert store.repairs == (Repair("s", 1, 40),)
    assert tuple(await store.load("s")) == notes(1, "a", "b")


@pytest.mark.parametrize("there", [False, True])
async def test_a_session_that_cannot_begin_leaves_nothing(
    store: JsonlStore, path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if there:  # a crash left its directory behind
        (path / "sessions" / "s").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(_jsonl_core, "replace_file", full)
        [outcome] = await store.append([append(0, "a")])
        assert isinstance(outcome, SessionStoreError)
    assert (path / "sessions" / "s").exists() == there
    assert await store.append([append(0, "a")]) == [None]


async def test_failed_meta_write_keeps_old(
    store: JsonlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([append(0, "a", metadata={"n": 1})])

    def full(found: int, data: bytes) -> None:
        os.write(found, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("agent_actors.stores.disk.safe_files.write_all", full)
        with pytest.raises(SessionStoreError, match="No space"):
            await store.annotate("s", {"n": 2})
        [outcome] = await store.append([append(1, "b", metadata={"n": 2})])
        assert isinstance(outcome, SessionStoreError)
    folder = path / "sessions" / "s"
    assert sorted(one.name for one in folder.iterdir()) == ["events.jsonl", "meta.json"]
    info = await store.info("s")
    assert info is not None
    assert (info.last_seq, info.metadata) == (1, {"n": 1})


async def test_deleted_file_needs_no_sync(store: JsonlStore) -> None:
    await store.append([append(0, "a"), append(0, "b", session="t")])
    await store.delete("s")
    await store.aclose()
    await store.open()
    assert len(await store.load("t")) == 1


async def test_failed_sync_on_close_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await again(path)
    await store.append([append(0, "a")])

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(SessionStoreError, match="Input/output error"):
            await store.aclose()
    store = await again(path)
    assert len(await store.load("s")) == 1
    await store.aclose()


def test_release_after_close_does_nothing(path: Path) -> None:
    core = JsonlCore(path, sync=False, on_repair=lambda _: None)
    core.close()
    core.open()
    core.close()
    core.release("s")
    core.close()


async def test_full_disk_fails_only_its_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JsonlStore(path)
    options = AgentOptions(model="m", provider=ScriptedModel(lambda _: "Fine."))

    def full(found: int, data: bytes) -> None:
        write_all(found, data[: len(data) // 2])
        if b"too much" in data:
            raise OSError(28, "No space left on device")
        write_all(found, data[len(data) // 2 :])

    monkeypatch.setattr(_jsonl_core, "write_all", full)
    async with open_runtime(store=store) as runtime:
        await runtime.run("hi", options, session_id="s")
        with pytest.raises(SessionStoreError, match="No space"):
            await runtime.run("too much", options, session_id="s")
        assert (await runtime.run("hi", options, session_id="t")).text == "Fine."
        result = await runtime.run("and now?", options, session_id="s")
        assert len(result.messages) == 4
        check_records(await store.load("s"))
    assert store.repairs == ()

"""Sessions that are deleted or found to be gone, and records that are appended unchanged."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from agent_actors.actors.session_log import STORE_TIMEOUT
from agent_actors.codec.events import encode_event
from agent_actors.domain.events import AnyEvent, EventScope, Notification, UnknownEvent
from agent_actors.errors import SessionStoreError
from tests.actors.store_helpers import Hook, Logged, ToldStore, serve_log


class Deleting(ToldStore):
    """A store whose deletions wait or fail on request."""

    before_delete: Hook | None = None

    async def delete(self, session_id: str) -> None:
        if self.before_delete is not None:
            await self.before_delete()
        await super().delete(session_id)


def note(seq: int) -> Notification:
    return Notification(EventScope("s", "r", "q"), f"id{seq}", 1.0, "text", seq=seq)


async def write(logged: Logged, records: Sequence[AnyEvent]) -> None:
    with logged.lease() as lease, await logged.log.open(lease) as session:
        await session.append_lines(records, [encode_event(record) for record in records])


def record_deletions(logged: Logged) -> list[str]:
    gone: list[str] = []
    logged.log._on_deleted = gone.append
    return gone


async def test_existing_records_are_kept_unchanged(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery)
    line = b'{"type":"x.later","seq":1,"ts":1.5,"more": [1]}'
    record = UnknownEvent({"type": "x.later", "seq": 1, "ts": 1.5, "more": [1]})
    with logged.lease() as lease, await logged.log.open(lease) as session:
        await session.append_lines([record], [line])
        assert (session.state.last_seq, session.state.last_ts) == (1, 1.5)
    assert list(await logged.store.export("s")) == [line]


async def test_deleted_session_is_gone_everywhere(nursery: trio.Nursery) -> None:
    logged = await serve_log(nursery)
    gone = record_deletions(logged)
    await write(logged, [note(1)])
    with logged.lease() as lease:
        await logged.log.delete(lease)
    assert gone == ["s"]
    assert logged.log.peek("s") is None
    assert list(await logged.store.load("s")) == []
    await write(logged, [note(1)])


@pytest.mark.parametrize("error", [OSError("no"), SessionStoreError("no", session_id="s")])
async def test_failed_deletion_makes_session_reread(
    nursery: trio.Nursery, error: Exception
) -> None:
    store = Deleting()
    logged = await serve_log(nursery, store)
    gone = record_deletions(logged)
    await write(logged, [note(1)])
    store.before_delete = Hook(error)
    with logged.lease() as lease, pytest.raises(SessionStoreError, match="no"):
        await logged.log.delete(lease)
    assert gone == []
    with logged.lease() as lease, await logged.log.open(lease) as session:
        assert session.state.last_seq == 1


async def test_deletion_is_bounded_in_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    store = Deleting()
    logged = await serve_log(nursery, store)
    store.before_delete = Hook()
    late = f"did not confirm the deletion within {STORE_TIMEOUT:g} s"
    with logged.lease() as lease, pytest.raises(SessionStoreError, match=late):
        await logged.log.delete(lease)


async def test_missing_session_leaves_memory_unless_held(
    nursery: trio.Nursery,
) -> None:
    logged = await serve_log(nursery)
    gone = record_deletions(logged)
    logged.log.forget("unknown")
    await write(logged, [note(1)])
    with logged.lease():
        logged.log.forget("s")
    assert (gone, logged.log.peek("s") is None) == ([], False)
    logged.log.forget("s")
    assert (gone, logged.log.peek("s")) == (["s"], None)

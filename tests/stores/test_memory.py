"""Features of the memory store alone; the contract of all stores covers the rest."""

from agent_actors.abc import LogAppend
from agent_actors.codec.events import encode_event
from agent_actors.domain.events import (
    AnyEvent,
    EventScope,
    SystemInit,
    UnknownEvent,
    UsageEvent,
    UserMessage,
)
from agent_actors.domain.usage import Usage
from agent_actors.stores.memory import MemoryStore
from tests.contracts.test_session_store import append

SCOPE = EventScope("s", "run", "request")


async def test_evicted_session_is_forgotten() -> None:
    store = MemoryStore()
    await store.open()
    await store.append([append(0, "a")])
    store.evicted("s")
    store.evicted("never there")
    assert tuple(await store.load("s")) == ()


async def test_records_outlive_close() -> None:
    store = MemoryStore()
    await store.open()
    await store.append([append(0, "a")])
    await store.aclose()
    await store.open()
    assert len(await store.load("s")) == 1


def session(first: int, count: int) -> list[AnyEvent]:
    """Return `count` records from a position on, of all kinds that a short run records."""
    made: list[AnyEvent] = []
    for seq in range(first, first + count):
        ts = 100.0 + seq
        kinds: list[AnyEvent] = [
            SystemInit(SCOPE, f"id-{seq}", ts, "/", "1.0", seq=seq),
            UserMessage(SCOPE, f"id-{seq}", ts, f"prompt {seq}", seq=seq),
            UsageEvent(SCOPE, f"id-{seq}", ts, Usage(seq), Usage(seq), seq=seq),
            UnknownEvent({"type": "new", "id": f"id-{seq}", "seq": seq, "ts": ts}),
        ]
        made.append(kinds[seq % len(kinds)])
    return made


async def test_compacted_session_reads_as_before() -> None:
    store = MemoryStore()
    written: list[AnyEvent] = []
    await store.open()
    for _ in range(3):
        added = tuple(session(len(written) + 1, 40))
        assert store.append_nowait(LogAppend("s", len(written), 1, added)) is None
        written += added
        store.compact("s")
        assert len(store._logs["s"].records) == 1
        for after in range(len(written) + 1):
            assert list(await store.load("s", after_seq=after)) == written[after:]
        assert list(await store.export("s", after_seq=5)) == [*map(encode_event, written[5:])]
        info = await store.info("s")
        assert info is not None
        assert (info.last_seq, info.created_at, info.updated_at) == (
            len(written),
            written[0].ts,
            written[-1].ts,
        )
    assert await store.prune(written[-1].ts) == []


async def test_session_that_cannot_be_packed_stays() -> None:
    store = MemoryStore()
    written = tuple(
        UserMessage(SCOPE, f"id-{seq}", 1.0, "half an emoji \ud83d", seq=seq)
        for seq in range(1, 41)
    )
    store.append_nowait(LogAppend("s", 0, 1, written))
    for _ in range(2):
        store.compact("s")
        assert await store.load("s") == written
    store.compact("never there")

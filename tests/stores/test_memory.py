"""Features of the memory store alone; the contract of all stores covers the rest."""

from agent_actors.stores.memory import MemoryStore
from tests.contracts.test_session_store import append


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

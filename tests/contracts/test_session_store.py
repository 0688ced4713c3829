"""What every `SessionStore` keeps; a new store adds itself to STORES."""

from collections.abc import Callable

import pytest

from agent_actors.abc import LogAppend, SessionStore
from agent_actors.domain.events import Event, EventScope, Notification
from agent_actors.errors import SessionFenced
from agent_actors.stores.memory import MemoryStore

STORES: list[Callable[[], SessionStore]] = [MemoryStore]


@pytest.fixture(params=STORES, ids=lambda make: make.__name__)
def store(request: pytest.FixtureRequest) -> SessionStore:
    made: SessionStore = request.param()
    return made


def notes(first: int, *texts: str, session: str = "s") -> tuple[Event, ...]:
    scope = EventScope(session, "r", "q")
    return tuple(
        Notification(scope, f"{session}{seq}", 1.0, text, seq=seq)
        for seq, text in enumerate(texts, first)
    )


def append(after: int, *texts: str, session: str = "s", fence: int = 1) -> LogAppend:
    return LogAppend(session, after, fence, notes(after + 1, *texts, session=session))


async def test_the_epoch_grows_with_every_opening(store: SessionStore) -> None:
    first = await store.open()
    await store.aclose()
    assert await store.open() > first


@pytest.mark.feature("WICK-028")
async def test_records_come_back_in_order_and_from_where_they_are_asked(
    store: SessionStore,
) -> None:
    await store.open()
    assert list(await store.load("s")) == []
    assert await store.append([append(0, "a", "b")]) == [None]
    assert await store.append([append(2, "c")]) == [None]
    assert tuple(await store.load("s")) == notes(1, "a", "b", "c")
    assert tuple(await store.load("s", after_seq=2)) == notes(3, "c")
    assert tuple(await store.load("s", after_seq=3)) == ()


@pytest.mark.parametrize(
    "stale",
    [append(0, "x"), append(2, "x"), append(1, "x", fence=4)],
    ids=["old", "ahead", "fence"],
)
async def test_a_stale_append_is_refused_and_leaves_nothing(
    store: SessionStore, stale: LogAppend
) -> None:
    await store.open()
    await store.append([append(0, "a", fence=5)])
    [outcome] = await store.append([stale])
    assert isinstance(outcome, SessionFenced)
    assert outcome.session_id == "s"
    assert tuple(await store.load("s")) == notes(1, "a")


async def test_appends_of_one_batch_stand_or_fall_alone(store: SessionStore) -> None:
    await store.open()
    outcomes = await store.append(
        [append(0, "a"), append(9, "x", session="t"), append(1, "b"), append(0, "u", session="u")]
    )
    assert [outcome is None for outcome in outcomes] == [True, False, True, True]
    assert tuple(await store.load("s")) == notes(1, "a", "b")
    assert tuple(await store.load("t")) == ()
    assert tuple(await store.load("u")) == notes(1, "u", session="u")


async def test_a_deleted_session_is_gone_and_deleting_it_again_is_nothing(
    store: SessionStore,
) -> None:
    await store.open()
    await store.append([append(0, "a")])
    await store.delete("s")
    await store.delete("s")
    assert tuple(await store.load("s")) == ()
    assert await store.append([append(0, "again")]) == [None]


async def test_closing_twice_is_closing_once(store: SessionStore) -> None:
    await store.open()
    await store.aclose()
    await store.aclose()


async def test_what_was_given_out_does_not_change(store: SessionStore) -> None:
    await store.open()
    await store.append([append(0, "a")])
    before = await store.load("s")
    await store.append([append(1, "b")])
    assert len(before) == 1

"""The cost of keeping sessions on disk, compared with keeping them in memory.

- `stores_append`: records per second through the SessionLog, four per append, from 100 sessions.
- `stores_turns_100`, `stores_turns_1`: complete turns of 50 deltas, in conversations of 20 turns.
- `stores_resume`: reading and folding a session of 10,000 records.
- `stores_many`: opening a SqliteStore that contains 100,000 sessions, and listing pages of 50.

`python -m benchmarks.bench_stores <store> <work as JSON>` runs one contender of the turns.
"""

import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import attrs
import msgspec
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.abc import LogAppend, SessionStore
from agent_actors.actors.session_gate import SessionGate
from agent_actors.actors.session_log import SessionLog
from agent_actors.domain.events import Event, EventScope, Notification
from agent_actors.domain.ids import Uuid7Ids
from agent_actors.domain.session import JsonScalar, SessionOrder
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore
from benchmarks.contenders import Clock
from benchmarks.endpoint import pin
from benchmarks.harness import Contender, Cost, Table, Work, endpoint, run
from benchmarks.record import QUICK, ROUNDS, Row, report, take_turns

T = TypeVar("T")

STORES: Final[Mapping[str, Callable[[Path], SessionStore]]] = {
    "MemoryStore": lambda _: MemoryStore(),
    "SqliteStore": SqliteStore,
    "JsonlStore": JsonlStore,
}
DELTAS: Final = 50
TURNS_OF_A_SESSION: Final = 20
TURNS: Final = {100: 400 if QUICK else 4_000, 1: 60 if QUICK else 600}
SESSIONS_AT_ONCE: Final = 100
RECORDS: Final = 4
APPENDS: Final = 10 if QUICK else 100
RESUMED: Final = 10_000
MANY: Final = 2_000 if QUICK else 100_000
TEXT: Final = "The weather in Paris yesterday and the forecast for May. " * 2


def main() -> None:
    """Run the benchmark, or do the work of one contender."""
    pin(0)
    if len(sys.argv) > 1:
        name, given = sys.argv[1:]
        work = msgspec.json.decode(given, type=Work)
        print(json.dumps(attrs.asdict(_in(name, partial(_turns, work)))))
        return
    rows = take_turns({name: partial(_in, name, _append) for name in STORES})
    report(
        "stores_append", "Records appended per second, 100 concurrent sessions", "records/s", rows
    )
    for at_once, turns in TURNS.items():
        _compare_turns(at_once, turns)
    rows = take_turns({name: partial(_in, name, _resume) for name in STORES}, scale=1e3)
    report("stores_resume", f"Resuming a session of {RESUMED:,} records", "ms", rows)
    report("stores_many", f"A SqliteStore of {MANY:,} sessions", "ms", _in("SqliteStore", _many))


def _in(name: str, measure: Callable[[SessionStore], Awaitable[T]]) -> T:
    """Measure a store in a temporary directory."""
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(measure, STORES[name](Path(folder) / "store"))


# Turns.


def _compare_turns(at_once: int, turns: int) -> None:
    contenders = [
        Contender(name, (sys.executable, "-m", "benchmarks.bench_stores", name)) for name in STORES
    ]
    with endpoint() as served:
        work = served.work(f"burst/{DELTAS}/{DELTAS}", turns=turns, at_once=at_once, deltas=DELTAS)
        table = Table(work, {name: [] for name in STORES})
        for _ in range(ROUNDS):
            for contender in contenders:
                table.costs[contender.name].append(run(contender, work, served))
    rows = table.rows("MemoryStore", per="turn")
    title = f"CPU per turn of {DELTAS} deltas, concurrency {at_once}, by store"
    report(f"stores_turns_{at_once}", title, "ms", rows)


async def _turns(work: Work, store: SessionStore) -> Cost:
    options = {
        url: AgentOptions(model="m", base_url=url, include_usage=True)
        for url in (work.url, work.warm)
    }
    async with open_runtime(store=store, streams_per_endpoint=math.inf) as runtime:

        async def turn(url: str, session_id: str) -> int:
            seen = 0
            async with runtime.stream("Go.", options[url], session_id=session_id) as events:
                async for event in events:
                    seen += event.type == "assistant.delta"
            return seen

        await turn(work.warm, "warm")
        clock, begun, count = Clock(), 0, 0

        async def converse(number: int) -> None:
            nonlocal begun, count
            mine = 0
            while begun < work.turns:
                begun += 1
                seen = await turn(work.url, f"{number}-{mine // TURNS_OF_A_SESSION}")
                mine += 1
                count += seen

        async with trio.open_nursery() as nursery:
            for number in range(work.at_once):
                nursery.start_soon(converse, number)
        return clock.cost(count)


# Records.


def _log(store: SessionStore, gate: SessionGate) -> SessionLog:
    ids = Uuid7Ids(time.time, random.Random(1).getrandbits)
    return SessionLog(store, ids, time.time, gate.is_busy)


async def _append(store: SessionStore) -> float:
    """Return the number of records appended per second."""
    gate = SessionGate()
    log = _log(store, gate)
    drafts = [partial(Notification, text=TEXT) for _ in range(RECORDS)]

    async def write(session_id: str) -> None:
        scope = EventScope(session_id, "a run", "a request", 1)
        with gate.acquire_nowait(session_id, "a run") as lease, await log.open(lease) as session:
            for _ in range(APPENDS):
                await session.append(scope, drafts)

    async with trio.open_nursery() as services:
        await services.start(log.owner.serve)
        await log.start()
        await write("warm")
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for number in range(SESSIONS_AT_ONCE):
                nursery.start_soon(write, f"session-{number}")
        seconds = time.perf_counter() - began
        services.cancel_scope.cancel()
    await _close(log)
    return SESSIONS_AT_ONCE * APPENDS * RECORDS / seconds


async def _resume(store: SessionStore) -> float:
    """Return the seconds that it takes to acquire and load a session."""
    await store.open()
    for first in range(0, RESUMED, RECORDS):
        events = _notes("s", first, time.time())
        assert await store.append([LogAppend("s", first, 1, events)]) == [None]
    store.released("s")
    if not isinstance(store, MemoryStore):
        await store.aclose()
    gate = SessionGate()
    log = _log(store, gate)
    seconds = 0.0
    async with trio.open_nursery() as services:
        await services.start(log.owner.serve)
        await log.start()
        with gate.acquire_nowait("s", "a run") as lease:
            began = time.perf_counter()
            with await log.open(lease) as session:
                seconds = time.perf_counter() - began
                assert session.state.last_seq == RESUMED
        services.cancel_scope.cancel()
    await _close(log)
    return seconds


def _notes(session_id: str, after: int, ts: float) -> tuple[Event, ...]:
    scope = EventScope(session_id, "a run", "a request", 1)
    return tuple(
        Notification(scope, f"{session_id}-{seq}", ts, TEXT, seq=seq)
        for seq in range(after + 1, after + 1 + RECORDS)
    )


async def _close(log: SessionLog) -> None:
    with trio.CancelScope(shield=True):
        await log.aclose()


# Many sessions.


async def _many(store: SessionStore) -> dict[str, Row]:
    await store.open()
    now = time.time()
    for first in range(0, MANY, 500):
        batch = [
            LogAppend(
                f"session-{number:06}",
                0,
                1,
                _notes(f"session-{number:06}", 0, now + number),
                {"cwd": f"/srv/{number % 50}", "model": "m", "title": f"Number {number}"},
            )
            for number in range(first, min(first + 500, MANY))
        ]
        assert not any(await store.append(batch))
        for append in batch:
            store.released(append.session_id)
            store.evicted(append.session_id)
    await store.aclose()
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await store.open()
        found.setdefault("opening", []).append(time.perf_counter() - began)
        for name, page in _pages(store).items():
            began = time.perf_counter()
            await page()
            found.setdefault(name, []).append(time.perf_counter() - began)
        await store.aclose()
    return take_turns({name: partial(figures.pop, 0) for name, figures in found.items()}, scale=1e3)


def _pages(store: SessionStore) -> dict[str, Callable[[], Awaitable[object]]]:
    middle = json.dumps([time.time() + MANY / 2, "session"])

    def page(
        order: SessionOrder = "created", after: str | None = None, **where: JsonScalar
    ) -> Callable[[], Awaitable[object]]:
        return partial(store.list_sessions, where=where, order=order, after=after)

    return {
        "the first page": page(),
        "a page in the middle": page(after=middle),
        "a page by last update": page("updated", middle),
        "a page filtered by directory": page(cwd="/srv/7", after=middle),
        "a page filtered by directory and model": page(model="m", cwd="/srv/7"),
        "a session by title": page(title="Number 70"),
        "sessions without a parent": page(parent_session_id=None),
    }


if __name__ == "__main__":
    main()

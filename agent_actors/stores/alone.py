"""Use of a store without a runtime, to read sessions and to append events to them."""

import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from agent_actors.abc import LogAppend, SessionStore
from agent_actors.domain.events import AnyEvent, Event, EventScope
from agent_actors.domain.ids import Ids, Uuid7Ids
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.errors import ConfigError
from agent_actors.kernel.interrupts import protect_loaded_modules
from agent_actors.sessions import fold


@attrs.frozen(eq=False)
class StandaloneStore:
    """An open store that is used without a runtime; see `open_standalone`.

    Attributes:
        store: The store, for listings, metadata and all other methods of `SessionStore`.
    """

    store: SessionStore
    _epoch: int
    _ids: Ids
    _wall_clock: Callable[[], float]

    async def events(self, session_id: str) -> tuple[AnyEvent, ...]:
        """Return the events in a session, in order; empty if there is no such session.

        Raises:
            SessionBusy: Another process is using the session.
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        return tuple(await self.store.load(session_id))

    async def messages(self, session_id: str) -> Messages:
        """Return a session's conversation, which is always valid.

        Raises:
            SessionBusy: Another process is using the session.
            SessionStoreError: The store cannot be read.

        Cancellation: safe.
        """
        return fold(await self.store.load(session_id)).history()

    async def append(
        self,
        session_id: str,
        *events: Event,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> tuple[Event, ...]:
        """Append events to a session atomically, creating the session if necessary.

        Args:
            session_id: The session.
            events: The events, which may be bare events. Missing ids and times are filled in. The
                session id and the position are always set.
            metadata: Keys to set in the session's metadata; None for no change.

        Returns:
            The events as they are stored.

        Raises:
            ConfigError: An event is of a type that is never stored.
            SessionBusy: Another process is using the session.
            SessionStoreError: The store failed, or an event could not be read back from the log.

        Cancellation: either all events are written or none.
        """
        for event in events:
            if not event.recorded:
                raise ConfigError(f"{event.type} events are only streamed and cannot be stored")
        state = fold(await self.store.load(session_id))
        run_id, now = self._ids.new(), max(self._wall_clock(), state.last_ts)
        stored = tuple(
            attrs.evolve(
                event,
                scope=_scope(event.scope, session_id, run_id),
                id=event.id or self._ids.new(),
                ts=event.ts or now,
                seq=seq,
            )
            for seq, event in enumerate(events, state.last_seq + 1)
        )
        append = LogAppend(session_id, state.last_seq, self._epoch, stored, metadata)
        [outcome] = await self.store.append([append])
        if outcome is not None:
            raise outcome
        return stored


def _scope(scope: EventScope, session_id: str, run_id: str) -> EventScope:
    return attrs.evolve(
        scope,
        session_id=session_id,
        run_id=scope.run_id or run_id,
        request_id=scope.request_id or run_id,
    )


@asynccontextmanager
async def open_standalone(
    store: SessionStore, *, wall_clock: Callable[[], float] = time.time
) -> AsyncGenerator[StandaloneStore]:
    """Open a store without a runtime, and close it at the end of the block.

    Sessions that the block has used stay reserved until it ends, so a runtime in another process
    cannot use them.

    Args:
        store: The store. It must not be open, and no runtime of this process may use it.
        wall_clock: Returns seconds since the epoch, for events without a time.

    Raises:
        SessionStoreError: The store cannot be opened.

    Cancellation: safe; the store is closed.
    """
    epoch = await store.open()
    try:
        yield StandaloneStore(store, epoch, Uuid7Ids(wall_clock, secrets.randbits), wall_clock)
    finally:
        with trio.CancelScope(shield=True):
            await store.aclose()


protect_loaded_modules()

"""LogReader: reads the records of a session without a lease.

It bypasses the SessionLog actor: nothing is claimed, loaded or kept in memory, so even a session
that another run is using can be read. The stored lines are decoded one by one as they are consumed,
so that a long log does not block other tasks.
"""

from collections.abc import Iterable
from itertools import count, repeat, starmap

import attrs
import trio

from agent_actors.abc import SessionStore
from agent_actors.actors.session_cache import instant_store
from agent_actors.actors.session_log import STORE_TIMEOUT
from agent_actors.codec.events import read_event
from agent_actors.domain.events import AnyEvent
from agent_actors.errors import SessionError, SessionStoreError


@attrs.frozen(eq=False)
class LogTail:
    """The end of a session's log.

    Attributes:
        last_seq: The `seq` of the last record; if there are no records, the `seq` after which
            reading began.
        records: The records, in order; can only be iterated once.
    """

    last_seq: int
    records: Iterable[AnyEvent]


class LogReader:
    """Reads the logs of sessions.

    Args:
        store: The store that contains the logs.
        timeout: Time limit, in seconds, for one read.
    """

    def __init__(self, store: SessionStore, *, timeout: float = STORE_TIMEOUT) -> None:
        self._store = store
        self._instant = instant_store(store)
        self._timeout = timeout

    async def read(self, session_id: str, after_seq: int) -> LogTail:
        """Read the records with a `seq` above `after_seq`; empty if the session does not exist.

        Raises:
            SessionStoreError: The records could not be read, or not in time.

        Cancellation: safe.
        """
        await trio.lowlevel.checkpoint()
        if self._instant is not None:
            records = self._instant.load_nowait(session_id, after_seq=after_seq)
            return LogTail(after_seq + len(records), records)
        try:
            with trio.move_on_after(self._timeout):
                lines = await self._store.export(session_id, after_seq=after_seq)
                reading = zip(lines, repeat(session_id), count(after_seq + 1))
                return LogTail(after_seq + len(lines), starmap(read_event, reading))
        except SessionError:
            raise
        except Exception as error:
            raise SessionStoreError(
                f"its records cannot be read: {type(error).__name__}: {error}",
                session_id=session_id,
            ) from error
        raise SessionStoreError(
            f"its records were not read within {self._timeout:g} s", session_id=session_id
        )

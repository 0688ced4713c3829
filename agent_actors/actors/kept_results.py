"""KeptResults: the complete texts of truncated tool results.

The log of a session only contains the truncated results, so that it stays small. If the store is a
`ResultStore`, it keeps the complete texts, and they outlive the process. Otherwise, the texts are
kept in memory, with a limit on the total number of bytes per runtime, and the least recently used
texts are dropped first.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import trio

from agent_actors.abc import ResultStore

# The maximum number of bytes in memory, for all sessions of a runtime.
MEMORY_CAPACITY: Final = 128 * 2**20
# Time limit, in seconds, for one call to the store.
KEEP_TIMEOUT: Final = 10.0


class KeptResults:
    """The complete texts of truncated results in one runtime.

    Args:
        store: The store that keeps the texts; None: they are kept in memory.
        capacity: The maximum number of bytes in memory.
    """

    def __init__(self, store: ResultStore | None, *, capacity: int = MEMORY_CAPACITY) -> None:
        self._store = store
        self._capacity = capacity
        self._texts: OrderedDict[tuple[str, str], Sequence[bytes]] = OrderedDict()
        self._used = 0

    async def keep(self, session_id: str, call_id: str, chunks: Sequence[bytes]) -> bool:
        """Keep a text, and return False if it could not be kept.

        Args:
            session_id: The session.
            call_id: The call that returned the text.
            chunks: The text, in chunks of UTF-8.

        Cancellation: safe; the text may or may not be kept.
        """
        if self._store is None:
            self._remember((session_id, call_id), chunks)
            return True
        try:
            with trio.move_on_after(KEEP_TIMEOUT):
                await self._store.keep_result(session_id, call_id, chunks)
                return True
        except Exception:  # noqa: BLE001 - the result itself is not affected
            return False
        return False

    async def read(self, session_id: str, call_id: str, offset: int, size: int) -> bytes | None:
        """Return up to `size` bytes of a text; None if the text is not kept, or was dropped.

        Cancellation: safe.
        """
        if self._store is None:
            chunks = self._texts.get((session_id, call_id))
            if chunks is None:
                return None
            self._texts.move_to_end((session_id, call_id))
            return _part(chunks, offset, size)
        try:
            with trio.move_on_after(KEEP_TIMEOUT):
                return await self._store.read_result(session_id, call_id, offset, size)
        except Exception:  # noqa: BLE001 - the model learns that the text is not available
            return None
        return None

    def forget(self, session_id: str) -> None:
        """Drop the texts of a deleted session from memory; a store drops them by itself."""
        for key in [key for key in self._texts if key[0] == session_id]:
            self._drop(key)

    def _remember(self, key: tuple[str, str], chunks: Sequence[bytes]) -> None:
        kept: list[bytes] = []
        size = 0
        for chunk in chunks:  # if the text is too large, only its beginning is kept
            if size + len(chunk) > self._capacity:
                break
            kept.append(chunk)
            size += len(chunk)
        if key in self._texts:
            self._drop(key)
        while self._used + size > self._capacity:
            self._drop(next(iter(self._texts)))
        self._texts[key] = kept
        self._used += size

    def _drop(self, key: tuple[str, str]) -> None:
        self._used -= sum(map(len, self._texts.pop(key)))


def _part(chunks: Sequence[bytes], offset: int, size: int) -> bytes:
    found = bytearray()
    for chunk in chunks:
        if offset < len(chunk):
            found += chunk[offset : offset + size - len(found)]
        offset = max(offset - len(chunk), 0)
        if len(found) == size:
            break
    return bytes(found)

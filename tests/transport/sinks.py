"""A byte sink for tests of exchanges."""

from collections.abc import Callable, Mapping

import trio


class ByteCollector:
    """Keeps what it is fed.

    Args:
        done_when: Told the body so far; True: the sink is done.

    Attributes:
        status: The answer's status; 0 before the head.
        headers: The answer's headers.
        body: The body so far.
        started: Set with the head.
        room: While unset, the sink is full.
        waited: How often room was waited for.
    """

    def __init__(self, done_when: Callable[[bytes], bool] = lambda body: False) -> None:
        self._done_when = done_when
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.started = trio.Event()
        self.fed = trio.Event()
        self.room = trio.Event()
        self.room.set()
        self.waited = 0

    @property
    def full(self) -> bool:
        return not self.room.is_set()

    @property
    def done(self) -> bool:
        return self._done_when(self.body)

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = dict(headers)
        self.started.set()

    def feed(self, data: bytes) -> None:
        self.body += data
        self.fed.set()

    async def wait_room(self) -> None:
        self.waited += 1
        await self.room.wait()

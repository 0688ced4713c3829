"""A byte sink for tests of exchanges."""

from collections.abc import Callable, Mapping

import trio


class ByteCollector:
    """Collects the bytes that it is fed.

    Args:
        done_when: A function of the body so far. The sink is done when it returns True.

    Attributes:
        status: The status of the response; 0 before the headers arrive.
        headers: The headers of the response.
        body: The body so far.
        started: Set when the headers arrive.
        room: While this event is not set, the sink is full.
        waited: The number of calls of `wait_room`.
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

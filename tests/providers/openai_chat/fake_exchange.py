"""An in-memory exchange that responds in scripted reads and records its requests."""

from collections.abc import Mapping, Sequence

import trio

from agent_actors.abc import ByteSink, ExchangeStatistics, HttpRequest


class FakeExchange:
    """A `ByteExchange` that gives every request the same response.

    Args:
        reads: The body, as it is read. An exception among the reads is raised in its place.
        status: The status of the response. 0: no response headers arrive at all.
        headers: The headers of the response.
    """

    def __init__(
        self,
        reads: Sequence[bytes | Exception] = (),
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._reads = reads
        self._status = status
        self._headers = headers or {"content-type": "text/event-stream"}
        self.requests: list[HttpRequest] = []
        self.taken = 0
        self.closed = 0

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        self.requests.append(request)
        await trio.lowlevel.checkpoint()
        if self._status:
            sink.start(self._status, self._headers)
        for data in self._reads:
            if sink.full:
                await sink.wait_room()
            if isinstance(data, Exception):
                raise data
            sink.feed(data)
            self.taken += 1
            if sink.done:
                return

    def statistics(self) -> ExchangeStatistics:
        return ExchangeStatistics(live=0, begun=len(self.requests))

    async def aclose(self) -> None:
        self.closed += 1

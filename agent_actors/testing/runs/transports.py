"""The HTTP transports that record traffic and play it."""

from collections.abc import AsyncIterator

import httpx

from agent_actors.testing.runs.recording import (
    Exchange,
    RecordedRequest,
    Recording,
    response_of,
)


def client_of(recording: Recording, *, live: bool) -> httpx.AsyncClient:
    """Return a client that records (`live`) or plays traffic; it does not have to be closed."""
    transport = _Recorder(recording) if live else _Player(recording)
    return httpx.AsyncClient(transport=transport)


class _Player(httpx.AsyncBaseTransport):
    """Plays recorded responses."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the recorded response.

        Raises:
            RecordingMismatch: The recording has no such request.

        Cancellation: the response counts as used.
        """
        sent = await _request(self._recording, request)
        found = self._recording.take(sent)
        stream = _Played(found.content, broken=found.broken)
        return httpx.Response(found.status, headers=found.headers, stream=stream)


class _Played(httpx.AsyncByteStream):
    """The body of a recorded response."""

    def __init__(self, content: bytes, *, broken: bool) -> None:
        self._left = [content]
        self._broken = broken

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._left:
            return self._left.pop()
        if self._broken:
            raise httpx.ReadError("the connection broke here when the response was recorded")
        raise StopAsyncIteration


class _Recorder(httpx.AsyncBaseTransport):
    """Sends requests to an endpoint, and records its responses."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        # Without idle connections, nothing has to be closed at the end.
        self._network = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request.

        Raises:
            httpx.TransportError: The request failed; it is not recorded.

        Cancellation: closes the connection; nothing is recorded.
        """
        sent = await _request(self._recording, request)
        response = await self._network.handle_async_request(request)
        for cookie in response.headers.get_list("set-cookie"):
            self._recording.learn(str(request.url), {"set-cookie": cookie})
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Copying(response.stream, self._recording, sent, response)
        return response


async def _request(recording: Recording, request: httpx.Request) -> RecordedRequest:
    content = await request.aread()
    return recording.request(request.method, str(request.url), request.headers, content)


class _Copying(httpx.AsyncByteStream):
    """The body of a response, which is recorded as far as it was read."""

    def __init__(
        self,
        body: httpx.AsyncByteStream,
        recording: Recording,
        request: RecordedRequest,
        response: httpx.Response,
    ) -> None:
        self._body = body
        self._chunks = aiter(body)
        self._recording = recording
        self._request = request
        self._status = response.status_code
        self._headers = {name.lower(): value for name, value in response.headers.items()}
        self._content = bytearray()
        self._broken = False
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await anext(self._chunks)
        except httpx.TransportError:
            self._broken = True
            raise
        self._content += data
        return data

    async def aclose(self) -> None:
        """Close the connection and record the response. Idempotent.

        Cancellation: the response is recorded.
        """
        if not self._closed:
            self._closed = True
            content = bytes(self._content)
            response = response_of(self._status, self._headers, content, broken=self._broken)
            self._recording.add(Exchange(self._request, response))
        await self._body.aclose()

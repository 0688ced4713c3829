"""Parse the body of a 2xx response into the response of the model.

The parser performs the steps SSE → events → blocks for one response, without I/O. It receives bytes
and returns the deltas to show. At the end it returns the response, or raises the reason why there
is none.

`providers/response_body.py` detects the kind of body.

A stream should end with `message_stop`. If a finish reason arrived and nothing follows it, the
parser calls `on_end_marked`, and the network reader waits for more only for a short time. If the
endpoint continues the response after its finish reason, that finish reason is not reliable. A
stream that ends with neither a finish reason nor `message_stop` is incomplete, and `finish` raises
an error.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.errors import ProviderError
from agent_actors.protocol.sse import ServerSentEvent, SSELimitError
from agent_actors.providers.anthropic.decode import MessageDecoder
from agent_actors.providers.anthropic.stream_error import in_band_text
from agent_actors.providers.damage import unchanged
from agent_actors.providers.response_body import AnswerBody, StreamLimits, Words

_DONE: Final = "[DONE]"
"""Not part of this protocol, but gateways from chat completions sometimes send it."""

_CONTENT: Final = (TextDelta, ThinkingDelta, ToolCallDelta, ProgressDelta)
"""Deltas that continue a response."""

_WORDS: Final = Words(
    stream="message events", document="JSON that is not a message", line="message events"
)


_LIMITS: Final = StreamLimits(provider="AnthropicMessages")


class MessageResponseParser:
    """Parses one response.

    Args:
        request: The request.
        endpoint: The name of the endpoint in error messages.
        content_type: The content type of the response, for error messages.
        limits: The limits of an event stream.
        redact: Removes credentials from notices.
        on_end_marked: Called with True when the finish reason has arrived but the end of the stream
            has not; called with False if more content follows the finish reason.
    """

    def __init__(
        self,
        request: ModelRequest,
        *,
        endpoint: str,
        content_type: str = "",
        limits: StreamLimits = _LIMITS,
        redact: Callable[[str], str] = unchanged,
        on_end_marked: Callable[[bool], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._body = AnswerBody(_WORDS, endpoint=endpoint, content_type=content_type)
        # True once the body is known to be an event stream.
        self._streams = False
        self._message = MessageDecoder(request, endpoint=endpoint, redact=redact)
        self._limits = limits
        self._sse = limits.decoder()
        # An error that arrived inside the stream. `finish` raises it after the earlier content was
        # shown.
        self._failure: ProviderError | None = None
        self._on_end_marked = on_end_marked
        self._end_marked: Literal["no", "yes", "wrongly"] = "no"

    @property
    def done(self) -> bool:
        """True once the stream has reported its end."""
        return self._failure is not None or (self._streams and self._message.ended)

    @property
    def paused(self) -> bool:
        """True if the endpoint expects another request, to continue this response."""
        return self._message.paused

    @property
    def size(self) -> int:
        """The number of characters of the response so far."""
        return self._message.size

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        """Parse the data from one read; return the deltas to show.

        Raises:
            ProviderProtocolError: The body is not a response of a model.
        """
        if not self._streams:
            begun = self._body.feed(data)
            if begun is None:
                return ()
            self._streams, data = True, begun
        shown: list[ModelDelta] = []
        self._events(data, shown)
        if self._message.finish_hint is not None and not self.done:
            self._look_for_end(shown)
        return shown

    def close(self) -> Sequence[ModelDelta]:
        """Parse the end of the body; return the remaining deltas to show.

        Raises:
            ProviderInBandError: The endpoint reported an error.
            ProviderProtocolError: The body is not a response of a model.
        """
        shown: list[ModelDelta] = []
        if self._body.kind == "document":
            shown += self._message.decode(self._body.document)
        if not self._streams and self._body.kind != "unknown" and not self._message.answered:
            raise self._body.no_answer()
        if self._streams and not self.done:
            # Include the last event, which the standard would discard, because some streams end
            # without a blank line.
            self._events(b"\n\n", shown)
        shown += self._message.flush()
        return shown

    def finish(self) -> ModelCompleted:
        """Return the complete response. Call `close` first.

        Raises:
            ProviderInBandError: The endpoint reported an error in its stream.
            ProviderConnectError: The stream ended before the end of the message.
            ProviderProtocolError: The stream contains no message.
        """
        if self._failure is not None:
            raise self._failure
        ended = self._message.ended or self._message.finish_hint is not None
        if self._message.answered and not ended:
            raise self._body.cut_off("`message_stop` or a stop reason")
        answer = self._message.finish()
        if self._message.finish_hint is not None or answer.blocks:
            return answer
        raise self._body.nothing_whole(
            skipped=self._message.skipped,
            first=self._message.first_skipped,
            foreign=self._message.foreign,
        )

    def _look_for_end(self, shown: Sequence[ModelDelta]) -> None:
        """Report that the finish reason has arrived, or that content followed it."""
        if self._end_marked == "wrongly":
            return
        if self._end_marked == "yes" and not any(isinstance(item, _CONTENT) for item in shown):
            return
        self._end_marked = "yes" if self._end_marked == "no" else "wrongly"
        if self._on_end_marked is not None:
            self._on_end_marked(self._end_marked == "yes")

    def _events(self, data: bytes, shown: list[ModelDelta]) -> None:
        try:
            for event in self._sse.feed(data):
                if self._message.ended:
                    break
                shown += self._take(event)
        except SSELimitError as error:
            self._failure = self._limits.exceeded(error, endpoint=self._endpoint)
        except ProviderError as error:
            self._failure = error

    def _take(self, event: ServerSentEvent) -> Sequence[ModelDelta]:
        if event.event == "error" and event.fault != "empty":
            raise in_band_text(event.data, endpoint=self._endpoint)
        if event.data == _DONE or event.data.strip() == _DONE:
            self._message.ended = True
            return ()
        return self._message.decode(event.data, event.event, event.fault)

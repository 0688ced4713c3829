"""The body of a 2xx answer, from its first byte to the whole answer of the model.

Owns the steps SSE → events → blocks for one answer, without I/O. It is told bytes and gives what is
to be shown; at the end it says what the answer was, or why there is none.

Which kind of body it is, is told in `providers/response_body.py`.

A stream should end with `message_stop`. Where a reason for the end has come and nothing follows it,
`on_told_end` is called, and whoever reads the network waits a short while more; an endpoint that
then goes on with the answer has shown that the reason means nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    NoticeDelta,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.errors import ProviderError, ProviderProtocolError
from agent_actors.protocol.sse import ServerSentEvent, SSEDecoder, SSELimitError
from agent_actors.providers.anthropic.decode import MessageDecoder
from agent_actors.providers.anthropic.stream_error import in_band_text
from agent_actors.providers.response_body import AnswerBody, Words
from agent_actors.providers.response_sink import CUT_SHORT

_DONE: Final = "[DONE]"
"""No part of this protocol; gateways of the other one leave it in."""

_CONTENT: Final = (TextDelta, ThinkingDelta, ToolCallDelta, ProgressDelta)
"""Pieces that are more of an answer."""

_WORDS: Final = Words(
    stream="a message", document="JSON that is no message", line="event of a message"
)


class AnswerReader:
    """Reads one answer.

    Args:
        request: What was asked.
        endpoint: What errors call the endpoint.
        content_type: The answer's content type, for errors.
        on_told_end: Called with True once the endpoint has given the reason for the end, though
            the end itself has not come; with False if it then went on.
    """

    def __init__(
        self,
        request: ModelRequest,
        *,
        endpoint: str,
        content_type: str = "",
        on_told_end: Callable[[bool], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._body = AnswerBody(_WORDS, endpoint=endpoint, content_type=content_type)
        # True once the body is known to be an event stream.
        self._streams = False
        self._message = MessageDecoder(request, endpoint=endpoint)
        self._sse = SSEDecoder(shows_faults=True)
        # An error inside the stream: `finish` raises it, once what came before it is shown.
        self._failure: ProviderError | None = None
        self._on_told_end = on_told_end
        self._told_end: Literal["no", "yes", "wrongly"] = "no"

    @property
    def done(self) -> bool:
        """True once the stream said that nothing more comes."""
        return self._failure is not None or (self._streams and self._message.ended)

    @property
    def paused(self) -> bool:
        """True if the endpoint wants to be asked again, to go on with this answer."""
        return self._message.paused

    @property
    def size(self) -> int:
        """Characters of the answer so far."""
        return self._message.size

    def feed(self, data: bytes) -> Sequence[ModelDelta]:
        """Take a read's worth of the body; return what is to be shown.

        Raises:
            ProviderProtocolError: This is no answer of a model.
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
        """Take the end of the body; return what is still to be shown.

        Raises:
            ProviderInBandError: The endpoint told of an error.
            ProviderProtocolError: This was no answer of a model.
        """
        shown: list[ModelDelta] = []
        if self._body.kind == "document":
            shown += self._message.decode(self._body.document)
        if not self._streams and self._body.kind != "unknown" and not self._message.answered:
            raise self._body.no_answer()
        if self._streams and not self.done:
            # The last event, though the standard would drop it: some end without a blank line.
            self._events(b"\n\n", shown)
        shown += self._message.flush()
        ended = self._message.ended or self._message.finish_hint is not None
        if self._streams and self._failure is None and not ended:
            shown.append(NoticeDelta(CUT_SHORT))
        return shown

    def finish(self) -> ModelCompleted:
        """The whole answer; `close` was called before.

        Raises:
            ProviderInBandError: The endpoint told of an error in its stream.
            ProviderProtocolError: Nothing came, or nothing whole and no reason for the end.
        """
        if self._failure is not None:
            raise self._failure
        answer = self._message.finish()
        if self._message.finish_hint is not None:
            return answer
        if any(block.type in {"text", "tool_use"} for block in answer.blocks):
            return answer
        if self._message.ended and answer.blocks:
            return answer
        raise self._body.nothing_whole(
            cut=bool(answer.blocks),
            skipped=self._message.skipped,
            first=self._message.first_skipped,
        )

    def _look_for_end(self, shown: Sequence[ModelDelta]) -> None:
        """A reason for the end has come, with this read or before it."""
        if self._told_end == "wrongly":
            return
        if self._told_end == "yes" and not any(isinstance(one, _CONTENT) for one in shown):
            return
        self._told_end = "yes" if self._told_end == "no" else "wrongly"
        if self._on_told_end is not None:
            self._on_told_end(self._told_end == "yes")

    def _events(self, data: bytes, shown: list[ModelDelta]) -> None:
        try:
            for event in self._sse.feed(data):
                if self._message.ended:
                    break
                shown += self._take(event)
        except SSELimitError as error:
            self._failure = ProviderProtocolError(str(error), endpoint=self._endpoint)
            self._failure.__cause__ = error
        except ProviderError as error:
            self._failure = error

    def _take(self, event: ServerSentEvent) -> Sequence[ModelDelta]:
        if event.event == "error" and event.fault != "empty":
            raise in_band_text(event.data, endpoint=self._endpoint)
        if event.data == _DONE or event.data.strip() == _DONE:
            self._message.ended = True
            return ()
        return self._message.decode(event.data, event.event, event.fault)

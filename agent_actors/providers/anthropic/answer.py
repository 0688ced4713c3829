"""The body of a 2xx answer, from its first byte to the whole answer of the model.

Owns the steps SSE → events → blocks for one answer, without I/O. It is told bytes and gives what is
to be shown; at the end it says what the answer was, or why there is none.

What kind of body comes is read from its first character, not from its content type: `{` or `[` is
a JSON document (a whole message though a stream was asked, or an error), `<` a page, all else an
event stream.
"""

from collections.abc import Sequence
from typing import Final, Literal

from agent_actors.domain.model import ModelDelta, ModelFinished, ModelRequest, NoticeDelta
from agent_actors.errors import ProviderError, ProviderProtocolError
from agent_actors.protocol.sse import ServerSentEvent, SSEDecoder, SSELimitError
from agent_actors.providers.anthropic.decode import MessageDecoder
from agent_actors.providers.anthropic.failure import in_band_text
from agent_actors.providers.openai.failure import message_of_body
from agent_actors.providers.reading import CUT_SHORT, begin_body

_DONE: Final = "[DONE]"
"""No part of this protocol; gateways of the other one leave it in."""

_MAX_DOCUMENT: Final = 64 * 1024 * 1024
"""Bytes of a JSON document that is collected: an answer with files in it fits."""

_MAX_PAGE: Final = 64 * 1024
"""Bytes of a page that are kept to tell what it says."""

_Kind = Literal["unknown", "events", "document", "page"]
_KINDS: Final[dict[bytes, _Kind]] = {b"": "unknown", b"{": "document", b"[": "document"}


class AnswerReader:
    """Reads one answer.

    Args:
        request: What was asked.
        endpoint: What errors call the endpoint.
        content_type: The answer's content type, for errors.
    """

    def __init__(
        self,
        request: ModelRequest,
        *,
        endpoint: str,
        content_type: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._content_type = content_type
        self._message = MessageDecoder(request, endpoint=endpoint)
        self._sse = SSEDecoder()
        self._kind: _Kind = "unknown"
        self._body = bytearray()
        # An error inside the stream: `finish` raises it, once what came before it is shown.
        self._failure: ProviderError | None = None

    @property
    def done(self) -> bool:
        """True once the stream said that nothing more comes."""
        return self._failure is not None or (self._kind == "events" and self._message.ended)

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
        if self._kind == "unknown":
            data = self._begin(data)
        if self._kind == "events":
            shown: list[ModelDelta] = []
            self._events(data, shown)
            return shown
        limit = _MAX_PAGE if self._kind == "page" else _MAX_DOCUMENT
        self._body += data[: limit - len(self._body)]
        if self._kind != "unknown" and len(self._body) >= limit:
            raise self._no_answer()
        return ()

    def close(self) -> Sequence[ModelDelta]:
        """Take the end of the body; return what is still to be shown.

        Raises:
            ProviderInBandError: The endpoint told of an error.
            ProviderProtocolError: This was no answer of a model.
        """
        shown: list[ModelDelta] = []
        if self._kind == "document":
            shown += self._message.decode(bytes(self._body))
        if self._kind == "page" or (self._kind == "document" and not self._message.answered):
            raise self._no_answer()
        if self._kind == "events" and not self.done:
            # The last event, though the standard would drop it: some end without a blank line.
            self._events(b"\n\n", shown)
        shown += self._message.flush()
        ended = self._message.ended or self._message.finish_hint is not None
        if self._kind == "events" and self._failure is None and not ended:
            shown.append(NoticeDelta(CUT_SHORT))
        return shown

    def finish(self) -> ModelFinished:
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
        raise self._nothing_whole(cut=bool(answer.blocks))

    def _begin(self, data: bytes) -> bytes:
        """Tell the kind of body by its first character, once there is one."""
        data, start = begin_body(bytes(self._body), data)
        self._body.clear()
        self._kind = "page" if start == b"<" else _KINDS.get(start, "events")
        return data

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
        if event.event == "error":
            raise in_band_text(event.data, endpoint=self._endpoint)
        if event.data == _DONE or event.data.strip() == _DONE:
            self._message.ended = True
            return ()
        return self._message.decode(event.data, event.event)

    def _no_answer(self) -> ProviderProtocolError:
        what = "a page" if self._kind == "page" else "JSON that is no message"
        return ProviderProtocolError(
            f"expected an event stream of a message, got {what} "
            f"(content type {self._content_type or 'not given'!r}): "
            f"{message_of_body(bytes(self._body[:_MAX_PAGE]))}",
            endpoint=self._endpoint,
        )

    def _nothing_whole(self, *, cut: bool) -> ProviderProtocolError:
        if cut:
            what = "the stream ended before anything of the answer was whole"
        elif self._message.skipped:
            what = (
                f"the stream held no answer, but {self._message.skipped} data line(s) that are no "
                f"event of a message, the first of them {self._message.first_skipped!r}"
            )
        else:
            what = (
                "the stream held no answer and no reason for its end "
                f"(content type {self._content_type or 'not given'!r})"
            )
        return ProviderProtocolError(what, endpoint=self._endpoint)

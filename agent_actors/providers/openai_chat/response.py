"""Parse the body of a 2xx response into the response of the model.

The parser performs the steps SSE → chunks → assembly for one response, without I/O. It receives
bytes and returns the deltas to show. At the end it returns the response, or raises the reason why
there is none.

`providers/response_body.py` detects the kind of body. In addition to the standard fields of an
event stream, the parser reads lines of the form `error: {…}`, with which some servers report a
failure inside a stream.

A failure that is reported inside an event stream ends the stream. The content before the failure is
still shown, and `finish` raises the failure. Observers therefore lose nothing that was read.

A stream should end with `[DONE]`. Some endpoints do not send it and keep the connection open. In
that case the parser derives the end from other signs. A chunk after the finish reason that contains
only token counts is the last chunk of the protocol. After a finish reason alone, the parser calls
`on_end_marked`, and the network reader waits for more only for a short time. If the endpoint
continues after its finish reason, that finish reason is not reliable, and the parser waits for the
end as it does for other endpoints. Some endpoints do not mark the end at all. A body that ends
without an end mark is therefore a response if any part of it is complete; its finish reason is
`unmarked`.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs

from agent_actors.domain.blocks import ThinkingBlock
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
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.protocol.response.assembler import Assembler
from agent_actors.protocol.response.harmony import HarmonyCalls
from agent_actors.protocol.response.inline_tool_calls import TagCalls, TextCalls
from agent_actors.protocol.sse import Fault, ServerSentEvent, SSELimitError
from agent_actors.providers.damage import unchanged
from agent_actors.providers.error_body import code_of, in_band_error, parse_error
from agent_actors.providers.openai_chat.decode import ChunkDecoder
from agent_actors.providers.openai_chat.reasoning_details import FIELD
from agent_actors.providers.response_body import AnswerBody, StreamLimits, Words
from agent_actors.providers.response_sink import CUT_SHORT

_DONE: Final = "[DONE]"
_WORDS: Final = Words(
    stream="chat completion chunks", document="JSON that is not a chat completion", line="JSON"
)

_ERROR_FIELD: Final = b"error:"

_ONLY_AUDIO: Final = (
    "the response consists of audio without a transcript, which cannot be shown; request text"
)

_CONTENT: Final = (TextDelta, ThinkingDelta, ToolCallDelta, ProgressDelta)
"""Deltas that continue a response."""


_LIMITS: Final = StreamLimits(provider="OpenAIChat")


class ChatResponseParser:
    """Parses one response.

    Args:
        request: The request.
        endpoint: The name of the endpoint in error messages.
        content_type: The content type of the response, for error messages.
        dialect: The peculiarities of the endpoint.
        limits: The limits of an event stream.
        redact: Removes credentials from notices.
        on_end_marked: Called with True when the finish reason has arrived but the end of the stream
            has not; called with False if more content follows the finish reason.
        sees_text: False to join the text deltas of one read, because no reader sees them.
        sees_arguments: The same for the arguments of calls.
    """

    __slots__ = (
        "_assembler",
        "_body",
        "_chunks",
        "_done",
        "_end_marked",
        "_endpoint",
        "_failure",
        "_fields",
        "_joins_arguments",
        "_joins_text",
        "_limits",
        "_on_end_marked",
        "_sse",
        "_streams",
    )

    def __init__(
        self,
        request: ModelRequest,
        *,
        endpoint: str,
        content_type: str = "",
        dialect: ChatDialect = PLAIN,
        limits: StreamLimits = _LIMITS,
        redact: Callable[[str], str] = unchanged,
        on_end_marked: Callable[[bool], None] | None = None,
        sees_text: bool = True,
        sees_arguments: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self._joins_text = not sees_text
        self._joins_arguments = not sees_arguments
        self._body = AnswerBody(_WORDS, endpoint=endpoint, content_type=content_type)
        # True once the body is known to be an event stream.
        self._streams = False
        self._assembler = Assembler.for_request(
            request, cumulative=dialect.cumulative, text_calls=_text_calls(request, dialect)
        )
        self._chunks = ChunkDecoder(endpoint=endpoint, redact=redact)
        self._limits = limits
        self._sse = limits.decoder()
        self._fields = _ErrorFields()
        self._done = False
        self._failure: ProviderError | None = None
        self._on_end_marked = on_end_marked
        self._end_marked: Literal["no", "yes", "wrongly"] = "no"

    @property
    def done(self) -> bool:
        """True once the stream has reported its end."""
        return self._done

    @property
    def size(self) -> int:
        """The number of characters of the response so far."""
        return self._assembler.size + self._chunks.details.size + self._chunks.media.size

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
        try:
            plain = self._sse.feed_plain(data)
            if plain is None:
                self._events(data, shown)
            else:
                self._plain_events(plain, shown)
        except ProviderError as error:
            self._fail(error)
        return shown

    def close(self) -> Sequence[ModelDelta]:
        """Parse the end of the body; return the remaining deltas to show.

        Raises:
            ProviderInBandError: The endpoint reported an error.
            ProviderProtocolError: The body is not a response of a model.
        """
        shown: list[ModelDelta] = []
        kind = self._body.kind
        if kind in {"page", "binary"} or (kind == "document" and not self._document(shown)):
            raise self._body.no_answer()
        if self._streams and not self._done:
            # Include the last event, which the standard would discard, because some streams end
            # without a blank line.
            try:
                self._events(b"\n\n", shown)
            except ProviderError as error:
                self._fail(error)
        shown += self._assembler.flush()
        if self._failure is None and not self._ended:
            shown.append(NoticeDelta(CUT_SHORT))
        return shown

    @property
    def _ended(self) -> bool:
        """True if the endpoint has reported the end of the response in any way."""
        end_marked = self._done or self._assembler.finish_hint is not None
        return end_marked or self._body.kind == "document"

    def finish(self) -> ModelCompleted:
        """Return the complete response. Call `close` first.

        Raises:
            ProviderInBandError: The endpoint reported an error in its stream.
            ProviderConnectError: The stream ended without an end mark, and before any part of the
                response was complete.
            ProviderProtocolError: The stream contains no response.
        """
        if self._failure is not None:
            raise self._failure
        answer = self._assembler.finish(
            truncated=not self._ended,
            model=self._chunks.model,
            response_id=self._chunks.response_id,
        )
        details = self._chunks.stop_details(answer.finish_reason)
        if details is not None or self._chunks.damaged.count:
            answer = attrs.evolve(
                answer, stop_details=details, damaged_lines=self._chunks.damaged.count
            )
        answer = self._with_details(self._with_images(answer))
        if self._assembler.finish_hint is not None:
            if not answer.blocks and self._chunks.media.has_audio:
                raise ProviderProtocolError(_ONLY_AUDIO, endpoint=self._endpoint)
            return answer
        if any(b.type in ("text", "tool_use", "image") for b in answer.blocks) or (
            self._ended and answer.blocks
        ):
            return answer
        if answer.blocks:
            raise self._body.cut_off("`[DONE]` or a finish reason")
        raise self._body.nothing_whole(
            skipped=self._chunks.damaged.count,
            first=self._chunks.damaged.first,
            foreign=self._chunks.foreign,
        )

    def _with_images(self, answer: ModelCompleted) -> ModelCompleted:
        images = self._chunks.media.images
        return attrs.evolve(answer, blocks=(*answer.blocks, *images)) if images else answer

    def _with_details(self, answer: ModelCompleted) -> ModelCompleted:
        """Return the response with its reasoning details in the first thinking block.

        Endpoints would refuse incomplete details, so they are left out if any of them may be lost.
        """
        details = self._chunks.details.whole()
        if not details or answer.damaged_lines or answer.finish_reason == "unmarked":
            return answer
        blocks = list(answer.blocks)
        at = next((n for n, b in enumerate(blocks) if isinstance(b, ThinkingBlock)), None)
        if at is None:  # the details contain no text, for example because they are encrypted
            at = 0
            blocks.insert(at, ThinkingBlock(""))
        first = blocks[at]
        blocks[at] = attrs.evolve(first, extra={**first.extra, FIELD: details})
        return attrs.evolve(answer, blocks=tuple(blocks))

    def _fail(self, error: ProviderError) -> None:
        """End the stream with an error, which `finish` raises."""
        self._failure = error
        self._done = True

    def _events(self, data: bytes, shown: list[ModelDelta]) -> None:
        # The order of an error line and events must not depend on how the stream was split into
        # reads.
        parts = data.splitlines(keepends=True) if _ERROR_FIELD in data else (data,)
        for part in parts:
            if not self._done:
                self._take_events(part, shown)

    def _take_events(self, data: bytes, shown: list[ModelDelta]) -> None:
        try:
            events = self._sse.feed(data)
        except SSELimitError as error:
            raise self._limits.exceeded(error, endpoint=self._endpoint) from error
        for event in events:
            if self._done:
                break
            self._take(event, shown)
        for end_marked in self._fields.feed(data):
            self._raise_reported(end_marked)

    def _plain_events(self, lines: Sequence[bytes], shown: list[ModelDelta]) -> None:
        """Process events that contain only data. None of these lines is an error line."""
        if self._fields.pending or self._sse.unfinished:
            self._fields.begin(bytes(self._sse.unfinished))
        chunks, assembler = self._chunks, self._assembler
        at = 0
        while at < len(lines) and not self._done:
            thinking = chunks.plain != "content"
            texts = chunks.plain_texts(lines, at) if assembler.is_plain(thinking=thinking) else ()
            if texts:
                shown += assembler.feed_plain(texts, thinking=thinking, joined=self._joins_text)
                at += len(texts)
                continue
            call = assembler.growing_call
            pieces = () if call is None else chunks.fragments(call, lines, at)
            if pieces:
                shown += assembler.feed_fragments(pieces, joined=self._joins_arguments)
                at += len(pieces)
            else:
                self._take_line(lines[at], shown)
                at += 1

    def _take_line(self, line: bytes, shown: list[ModelDelta]) -> None:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            self._take_data(line.decode("utf-8", "replace"), shown, "bytes")
        else:
            self._take_data(text, shown)

    def _take(self, event: ServerSentEvent, shown: list[ModelDelta]) -> None:
        if event.fault == "empty":
            return
        if event.event == "error" and event.data.strip() != _DONE:
            self._raise_reported(event.data)
        self._take_data(event.data, shown, event.fault)

    def _take_data(self, data: str, shown: list[ModelDelta], fault: Fault = "") -> None:
        if data == _DONE or data.strip() == _DONE:
            self._done = True
            return
        deltas = self._decode(data, fault, shown)
        if self._assembler.finish_hint is not None:
            self._look_for_end(deltas)

    def _decode(
        self, data: str | bytes, fault: Fault, shown: list[ModelDelta]
    ) -> Sequence[ModelDelta]:
        damaged = self._chunks.damaged.count
        deltas = self._chunks.decode(data, fault)
        for delta in deltas:
            shown += self._assembler.feed(delta)
        if self._chunks.damaged.count > damaged:
            shown += self._assembler.damage()
        if self._chunks.failure is not None:
            raise self._chunks.failure
        return deltas

    def _look_for_end(self, deltas: Sequence[ModelDelta]) -> None:
        """Handle a finish reason that has arrived in this chunk or earlier."""
        if self._end_marked == "no":
            self._end_marked = "yes"
            if self._on_end_marked is not None:
                self._on_end_marked(True)
        elif self._end_marked == "yes":
            if any(isinstance(delta, _CONTENT) for delta in deltas):
                self._end_marked = "wrongly"
                if self._on_end_marked is not None:
                    self._on_end_marked(False)
            elif self._chunks.summed_up:
                self._done = True

    def _document(self, shown: list[ModelDelta]) -> bool:
        """Parse the body as one JSON document; return whether it was a response."""
        self._decode(self._body.document, "", shown)
        return self._chunks.answered

    def _raise_reported(self, data: str) -> None:
        """Raise the error that an event or an error line reports, in JSON or plain text."""
        error = parse_error(data)
        raise in_band_error(error, endpoint=self._endpoint, code=code_of(error), text=data.strip())


def _text_calls(request: ModelRequest, dialect: ChatDialect) -> TextCalls | None:
    if dialect.text_tool_calls == "tags":
        return TagCalls(request.tools, lenient=request.settings.lenient_tool_json)
    return HarmonyCalls() if dialect.text_tool_calls == "harmony" else None


class _ErrorFields:
    """Finds the lines of a stream that begin with `error:`, even if a read splits a line."""

    __slots__ = ("_line", "_skipping", "pending")

    def __init__(self) -> None:
        self.pending: bool = False  # the last read ended in the middle of a line
        # The incomplete line, kept while it may be an error line.
        self._line = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[str]:
        """Return the values of the error lines that these bytes complete."""
        if self._line or _ERROR_FIELD in data:
            return self._search(data)
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end or not self._skipping:
            self.begin(data[end:])
        return []

    def _search(self, data: bytes) -> list[str]:
        found: list[str] = []
        for line in data.splitlines(keepends=True):
            line_ended = line.endswith((b"\n", b"\r"))
            if not self._skipping:
                self.begin(self._line + line)
            if line_ended:
                if self._line.startswith(_ERROR_FIELD):
                    value = self._line[len(_ERROR_FIELD) :]
                    found.append(value.decode("utf-8", "replace").strip())
                self.begin(b"")
        return found

    def begin(self, line: bytes) -> None:
        """Keep the beginning of a line if it may be an error line."""
        self._skipping = not _ERROR_FIELD.startswith(line[: len(_ERROR_FIELD)])
        self._line = b"" if self._skipping else line
        self.pending = bool(line)

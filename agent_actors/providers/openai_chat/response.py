"""The body of a 2xx answer, from its first byte to the whole answer of the model.

Owns the steps SSE → chunks → assembly for one answer, without I/O. It is told bytes and gives what
is to be shown; at the end it says what the answer was, or why there is none.

Which kind of body it is, is told in `providers/response_body.py`. Beside the standard's fields of
an event
stream one more line is read: `error: {…}`, by which some servers tell of a failure in the middle.

A failure that is told of inside an event stream ends it: what came before it is still shown, and
`finish` raises it. So nothing that was read is lost to whoever watches.

A stream should end with `[DONE]`. Some endpoints send none and leave the connection open, so the
end is taken from what is left: token counts in a chunk of their own, after a finish reason, are the
last that the protocol has; after a finish reason alone `on_told_end` is called, and whoever reads
the network waits a short while more. An endpoint that goes on after its finish reason has shown
that it means nothing, and is waited for like any other.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs

from agent_actors.domain.model import (
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    NoticeDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.errors import ProviderError, ProviderInBandError, ProviderProtocolError
from agent_actors.profiles.dialect import PLAIN, ChatDialect
from agent_actors.protocol.response.assembler import Assembler
from agent_actors.protocol.response.harmony import HarmonyCalls
from agent_actors.protocol.response.inline_tool_calls import TagCalls, TextCalls
from agent_actors.protocol.sse import Fault, ServerSentEvent, SSEDecoder, SSELimitError
from agent_actors.providers.error_body import code_of, message_of
from agent_actors.providers.openai_chat.decode import ChunkDecoder
from agent_actors.providers.response_body import AnswerBody, Words
from agent_actors.providers.response_sink import CUT_SHORT
from agent_actors.providers.wire_json import NotJsonError, read_json

_DONE: Final = "[DONE]"
_WORDS: Final = Words(
    stream="chat completion chunks", document="JSON that is no chat completion", line="JSON"
)

_ERROR_FIELD: Final = b"error:"

_CONTENT: Final = (TextDelta, ThinkingDelta, ToolCallDelta)
"""Pieces that are more of an answer."""


class AnswerReader:
    """Reads one answer.

    Args:
        request: What was asked.
        endpoint: What errors call the endpoint.
        content_type: The answer's content type, for errors.
        dialect: What the endpoint does in its own way.
        on_told_end: Called with True once the endpoint has said how the answer ends, though not
            that it has ended; with False if it then went on.
    """

    def __init__(
        self,
        request: ModelRequest,
        *,
        endpoint: str,
        content_type: str = "",
        dialect: ChatDialect = PLAIN,
        on_told_end: Callable[[bool], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._body = AnswerBody(_WORDS, endpoint=endpoint, content_type=content_type)
        # True once the body is known to be an event stream.
        self._streams = False
        self._assembler = Assembler.for_request(
            request, cumulative=dialect.cumulative, text_calls=_text_calls(request, dialect)
        )
        self._chunks = ChunkDecoder(endpoint=endpoint)
        self._sse = SSEDecoder(shows_faults=True)
        self._fields = _ErrorFields()
        self._done = False
        self._failure: ProviderError | None = None
        self._on_told_end = on_told_end
        self._told_end: Literal["no", "yes", "wrongly"] = "no"

    @property
    def done(self) -> bool:
        """True once the stream said that nothing more comes."""
        return self._done

    @property
    def size(self) -> int:
        """Characters of the answer so far."""
        return self._assembler.size

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
        """Take the end of the body; return what is still to be shown.

        Raises:
            ProviderInBandError: The endpoint told of an error.
            ProviderProtocolError: This was no answer of a model.
        """
        shown: list[ModelDelta] = []
        kind = self._body.kind
        if kind == "page" or (kind == "document" and not self._document(shown)):
            raise self._body.no_answer()
        if self._streams and not self._done:
            # The last event, though the standard would drop it: some end without a blank line.
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
        """Whether the endpoint said in any way that the answer is over."""
        told = self._done or self._assembler.finish_hint is not None
        return told or self._body.kind == "document"

    def finish(self) -> ModelCompleted:
        """The whole answer; `close` was called before.

        Raises:
            ProviderInBandError: The endpoint told of an error in its stream.
            ProviderProtocolError: Nothing came, or nothing whole and no word of the end.
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
        if self._assembler.finish_hint is not None:
            return answer
        if any(b.type in ("text", "tool_use") for b in answer.blocks) or (
            self._ended and answer.blocks
        ):
            return answer
        raise self._body.nothing_whole(
            cut=bool(answer.blocks),
            skipped=self._chunks.damaged.count,
            first=self._chunks.damaged.first,
        )

    def _fail(self, error: ProviderError) -> None:
        """End the stream with an error, which `finish` raises."""
        self._failure = error
        self._done = True

    def _events(self, data: bytes, shown: list[ModelDelta]) -> None:
        # Which came first, an error or what the events tell, must not depend on the reads.
        parts = data.splitlines(keepends=True) if _ERROR_FIELD in data else (data,)
        for part in parts:
            if not self._done:
                self._take_events(part, shown)

    def _take_events(self, data: bytes, shown: list[ModelDelta]) -> None:
        try:
            events = self._sse.feed(data)
        except SSELimitError as error:
            raise ProviderProtocolError(str(error), endpoint=self._endpoint) from error
        for event in events:
            if self._done:
                break
            self._take(event, shown)
        for told in self._fields.feed(data):
            self._raise_told(told)

    def _plain_events(self, lines: Sequence[bytes], shown: list[ModelDelta]) -> None:
        """Take the data of events that have nothing else; lines that tell of errors are none."""
        if self._fields.pending or self._sse.unfinished:
            self._fields.begin(bytes(self._sse.unfinished))
        chunks, assembler = self._chunks, self._assembler
        at = 0
        while at < len(lines) and not self._done:
            thinking = chunks.plain != "content"
            texts = chunks.plain_texts(lines, at) if assembler.is_plain(thinking=thinking) else ()
            if texts:
                shown += assembler.feed_plain(texts, thinking=thinking)
                at += len(texts)
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
            self._raise_told(event.data)
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
        return deltas

    def _look_for_end(self, deltas: Sequence[ModelDelta]) -> None:
        """A finish reason has come, with this chunk or before it."""
        if self._told_end == "no":
            self._told_end = "yes"
            if self._on_told_end is not None:
                self._on_told_end(True)
        elif self._told_end == "yes":
            if any(isinstance(delta, _CONTENT) for delta in deltas):
                self._told_end = "wrongly"
                if self._on_told_end is not None:
                    self._on_told_end(False)
            elif self._chunks.summed_up:
                self._done = True

    def _document(self, shown: list[ModelDelta]) -> bool:
        """Read the body as one JSON document; say whether it was an answer."""
        self._decode(self._body.document, "", shown)
        return self._chunks.answered

    def _raise_told(self, data: str) -> None:
        """Raise the error that an event or a line of its own tells of, in JSON or in words."""
        try:
            value = read_json(data)
        except NotJsonError:
            value = data
        raise ProviderInBandError(
            message_of(value) or data.strip() or "the endpoint told of an error without a message",
            endpoint=self._endpoint,
            code=code_of(value),
        )


def _text_calls(request: ModelRequest, dialect: ChatDialect) -> TextCalls | None:
    if dialect.text_tool_calls == "tags":
        return TagCalls(request.tools, lenient=request.settings.lenient_tool_json)
    return HarmonyCalls() if dialect.text_tool_calls == "harmony" else None


class _ErrorFields:
    """Finds lines that begin with `error:` in a stream, however it is split."""

    __slots__ = ("_line", "_skipping", "pending")

    def __init__(self) -> None:
        self.pending: bool = False  # amid a line
        # The line that is not whole yet, as long as it may be one that is looked for.
        self._line = b""
        self._skipping = False

    def feed(self, data: bytes) -> list[str]:
        """The values of such lines that these bytes made whole."""
        if self._line or _ERROR_FIELD in data:
            return self._search(data)
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end or not self._skipping:
            self.begin(data[end:])
        return []

    def _search(self, data: bytes) -> list[str]:
        found: list[str] = []
        for line in data.splitlines(keepends=True):
            whole = line.endswith((b"\n", b"\r"))
            if not self._skipping:
                self.begin(self._line + line)
            if whole:
                if self._line.startswith(_ERROR_FIELD):
                    value = self._line[len(_ERROR_FIELD) :]
                    found.append(value.decode("utf-8", "replace").strip())
                self.begin(b"")
        return found

    def begin(self, line: bytes) -> None:
        """Put the start of a line by, unless it is the start of another."""
        self._skipping = not _ERROR_FIELD.startswith(line[: len(_ERROR_FIELD)])
        self._line = b"" if self._skipping else line
        self.pending = bool(line)

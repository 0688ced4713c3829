"""The kind of body that a 2xx answer has, whichever the protocol.

What kind of body comes is read from its first character, not from its content type, which endpoints
get wrong both ways: `{` or `[` is a JSON document (a whole answer though a stream was asked, or an
error), `<` a page, all else an event stream. Owns the look at the beginning, the bytes of what is
no stream, and the errors of bodies that hold no answer. The bytes of a stream pass by.
"""

from typing import Final, Literal

import attrs

from agent_actors.errors import ProviderProtocolError
from agent_actors.providers.error_body import message_of_body
from agent_actors.providers.response_sink import begin_body

_MAX_DOCUMENT: Final = 64 * 1024 * 1024
"""Bytes of a JSON document that is collected: an answer with files in it fits."""

_MAX_PAGE: Final = 64 * 1024
"""Bytes of a page that are kept to tell what it says."""

_Kind = Literal["unknown", "events", "document", "page"]
_KINDS: Final[dict[bytes, _Kind]] = {
    b"": "unknown",
    b"{": "document",
    b"[": "document",
    b"<": "page",
}


@attrs.frozen
class Words:
    """What errors call the parts of a protocol.

    Attributes:
        stream: What an event stream is one of.
        document: What a document is that is no answer.
        line: What a data line is that is skipped.
    """

    stream: str
    document: str
    line: str


class AnswerBody:
    """The body of one answer, until it turns out to be an event stream.

    Args:
        words: What errors call the parts of the protocol.
        endpoint: What errors call the endpoint.
        content_type: The answer's content type, for errors.

    Attributes:
        kind: What it is, as far as is known.
    """

    def __init__(self, words: Words, *, endpoint: str, content_type: str) -> None:
        self.kind: _Kind = "unknown"
        self._words = words
        self._endpoint = endpoint
        self._content_type = content_type
        self._kept = bytearray()

    @property
    def document(self) -> bytes:
        """What was kept of it."""
        return bytes(self._kept)

    def feed(self, data: bytes) -> bytes | None:
        """Take a read's worth of what is not known to be an event stream.

        Returns:
            The first bytes of the stream, if it is one; whoever gets them feeds no more. Else None.

        Raises:
            ProviderProtocolError: More came than is kept.
        """
        if self.kind == "unknown":
            data, start = begin_body(bytes(self._kept), data)
            self._kept.clear()
            self.kind = _KINDS.get(start, "events")
            if self.kind == "events":
                return data
        limit = _MAX_PAGE if self.kind == "page" else _MAX_DOCUMENT
        self._kept += data[: limit - len(self._kept)]
        if self.kind != "unknown" and len(self._kept) >= limit:
            raise self.no_answer()
        return None

    def no_answer(self) -> ProviderProtocolError:
        """The error of a page, or of a document that is something else."""
        what = "a page" if self.kind == "page" else self._words.document
        return ProviderProtocolError(
            f"expected an event stream of {self._words.stream}, got {what} {self._type()}: "
            f"{message_of_body(bytes(self._kept[:_MAX_PAGE]))}",
            endpoint=self._endpoint,
        )

    def nothing_whole(self, *, cut: bool, skipped: int, first: str) -> ProviderProtocolError:
        """The error of a stream out of which nothing came that is an answer.

        Args:
            cut: True if something began.
            skipped: Data lines that could not be read.
            first: The first of them.
        """
        if cut:
            what = "the stream ended before anything of the answer was whole"
        elif skipped:
            what = (
                f"the stream held no answer, but {skipped} data line(s) that are no "
                f"{self._words.line}, the first of them {first!r}"
            )
        else:
            what = f"the stream held no answer and no word of its end {self._type()}"
        return ProviderProtocolError(what, endpoint=self._endpoint)

    def _type(self) -> str:
        return f"(content type {self._content_type or 'not given'!r})"

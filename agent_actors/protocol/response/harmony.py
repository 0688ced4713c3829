"""Tool calls that a model writes into its text in harmony, the format of gpt-oss.

`HarmonyCalls` owns the text of one response, for endpoints that are declared to pass this format
through. A message has this form:

    <|start|>assistant<|channel|>CHANNEL to=RECIPIENT <|constrain|>json<|message|>BODY<|call|>

The beginning and most of the header may be missing. If the header names a recipient, the body
contains the arguments of a call. Otherwise the body is thinking in the channel `analysis`, and text
in any other channel. If an endpoint strips the control tokens, a call looks like
`commentary to=functions.NAME json{…}` and ends with its JSON object.

Bodies are passed on as they arrive. Text that may be the beginning of a marker is held back until
this is known. A header is held back until it is complete. Held-back text that turns out to be
neither a marker nor a header is passed on as text.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from agent_actors.domain.model import TextDelta, ThinkingDelta, ToolCallDelta
from agent_actors.protocol.response.inline_tool_calls import FIRST_INDEX, Found
from agent_actors.protocol.response.markers import split_at_mark

_HEADS: Final = ("<|start|>", "<|channel|>")
_ENDS: Final = ("<|end|>", "<|return|>", "<|call|>")
_MESSAGE: Final = "<|message|>"
_STRIPPED: Final = ("commentary to=functions.", "assistantcommentary to=functions.")
_IN_TEXT: Final = (*_HEADS, *_ENDS, *_STRIPPED)
_IN_BODY: Final = (*_HEADS, *_ENDS)

_MAX_HEAD: Final = 256
"""The maximum number of characters of a header: role, channel, recipient and type. Longer text is
not a header.
"""

_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT: Final = re.compile(r"\bto=(?:functions\.)?([\w.:/-]+)")
_STRIPPED_HEAD: Final = re.compile(
    r"([\w.:/-]+?)\s*(?:<\|constrain\|>)?\s*(?:json|code)?\s*(?:<\|message\|>)?\s*"
)

_State = Literal["text", "thought", "call", "stripped call", "head", "stripped head"]


class HarmonyCalls:
    """Finds calls in the harmony format; implements `TextCalls`."""

    def __init__(self) -> None:
        self._state: _State = "text"
        self._waiting = ""
        # The header so far, including its marker.
        self._head = ""
        self._count = 0
        self._object = _ObjectEnd()

    @property
    def held(self) -> int:
        """The number of characters in the open header; always small."""
        return len(self._head)

    def feed(self, text: str) -> Sequence[Found]:
        """Process more text; return the text, thinking and calls that are certain."""
        found: list[Found] = []
        text, self._waiting = self._waiting + text, ""
        while text:
            if self._state == "stripped call":
                text = self._feed_object(text, found)
            elif self._state in {"head", "stripped head"}:
                text = self._feed_head(text, found)
            else:
                text = self._feed_body(text, found)
        return found

    def settle(self) -> Sequence[Found]:
        """Return text held back as a possible marker; an open call or header stays open."""
        if self._state in {"head", "stripped head", "stripped call"}:
            return ()
        found: list[Found] = []
        waiting, self._waiting = self._waiting, ""
        self._put(waiting, found)
        return found

    def damage(self) -> Sequence[Found]:
        """Handle a loss of text. An open header becomes text: its recipient is uncertain."""
        return self.flush()

    def flush(self) -> Sequence[Found]:
        """Return the rest at the end of the text. An incomplete header becomes text."""
        if self._head:
            self._waiting, self._head = self._head + self._waiting, ""
            self._state = "text"
        return self.settle()

    def _feed_body(self, text: str, found: list[Found]) -> str:
        """Process the body of a message; return the text after the body."""
        marks = _IN_TEXT if self._state == "text" else _IN_BODY
        header, mark, rest = split_at_mark(text, marks)
        self._put(header, found)
        if not mark:
            self._waiting = rest
            return ""
        self._state = "text"
        if mark not in _ENDS:
            self._head = mark
            self._state = "stripped head" if mark in _STRIPPED else "head"
        return rest

    def _feed_head(self, text: str, found: list[Found]) -> str:
        """Process the header of a message; return the text after the header."""
        end = "{" if self._state == "stripped head" else _MESSAGE
        header, mark, rest = split_at_mark(text, (end,))
        if len(self._head) + len(header) > _MAX_HEAD or (mark and not self._opens(header)):
            return self._give_up(text, found)
        if mark:
            return self._open(header, rest, found)
        self._head += header
        self._waiting = rest
        return ""

    def _opens(self, header: str) -> bool:
        """Return whether this text completes a header."""
        return self._state == "head" or self._stripped_name(header) is not None

    def _stripped_name(self, header: str) -> str | None:
        head = self._head + header
        named = _STRIPPED_HEAD.fullmatch(head, head.index(_STRIPPED[0]) + len(_STRIPPED[0]))
        return named[1] if named else None

    def _open(self, header: str, rest: str, found: list[Found]) -> str:
        """Handle a complete header; return the text after the header."""
        if self._state == "stripped head":
            self._begin_call(self._stripped_name(header) or "", found)
            self._state = "stripped call"
            self._object = _ObjectEnd()
            rest = "{" + rest
        else:
            head = self._head + header
            channel, recipient = _CHANNEL.search(head), _RECIPIENT.search(head)
            if recipient:
                self._begin_call(recipient[1], found)
                self._state = "call"
            else:
                self._state = "thought" if channel and channel[1] == "analysis" else "text"
        self._head = ""
        return rest

    def _give_up(self, text: str, found: list[Found]) -> str:
        """Pass on the marker as text if no header follows it; return the text to process again."""
        mark = next(item for item in _IN_TEXT if self._head.startswith(item))
        text = self._head.removeprefix(mark) + text
        self._head, self._state = "", "text"
        self._put(mark, found)
        return text

    def _feed_object(self, text: str, found: list[Found]) -> str:
        """Process arguments up to the end of their object; return the text after the object."""
        end = self._object.find(text)
        if end:
            self._put(text[:end], found)
            self._state = "text"
            return text[end:]
        self._put(text, found)
        return ""

    def _begin_call(self, name: str, found: list[Found]) -> None:
        self._count += 1
        found.append(ToolCallDelta(FIRST_INDEX + self._count, "", name, ""))

    def _put(self, text: str, found: list[Found]) -> None:
        """Append text to the current call, thinking or text."""
        if not text:
            return
        if self._state in {"call", "stripped call"}:
            found.append(ToolCallDelta(FIRST_INDEX + self._count, "", "", text))
        else:
            found.append(ThinkingDelta(text) if self._state == "thought" else TextDelta(text))


class _ObjectEnd:
    """Finds the end of a streamed JSON object by its brackets."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def find(self, text: str) -> int:
        """Return the position in this chunk after the end of the object; 0 if it has not ended."""
        for at, letter in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_text:
                self._escaped = letter == "\\"
                self._in_text = letter != '"'
            elif letter == '"':
                self._in_text = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if not self._depth:
                    return at + 1
        return 0

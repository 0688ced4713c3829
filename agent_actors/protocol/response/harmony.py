"""Calls that a model writes into its text in the format of gpt-oss, called harmony.

Owns the text of one answer of an endpoint that is declared to hand that format through. A message
is `<|start|>assistant<|channel|>CHANNEL to=RECIPIENT <|constrain|>json<|message|>BODY<|call|>`, of
which the beginning and most of the head may be missing. The body is a call's arguments if the head
names a recipient, else a thought in the channel `analysis`, else text. Where an endpoint has
stripped the control tokens, `commentary to=functions.NAME json{…}` is left of a call; it ends with
its object.

Bodies are let through as they come. The beginning of a mark waits until it is known whether it is
one, and so does a head, until its end; what turns out to be none is text.
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
"""Characters: role, channel, recipient and type. What is longer is no head."""

_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT: Final = re.compile(r"\bto=(?:functions\.)?([\w.:/-]+)")
_STRIPPED_HEAD: Final = re.compile(
    r"([\w.:/-]+?)\s*(?:<\|constrain\|>)?\s*(?:json|code)?\s*(?:<\|message\|>)?\s*"
)

_State = Literal["text", "thought", "call", "stripped call", "head", "stripped head"]


class HarmonyCalls:
    """`TextCalls` in harmony."""

    def __init__(self) -> None:
        self._state: _State = "text"
        self._waiting = ""
        # A head so far, its mark with it.
        self._head = ""
        self._count = 0
        self._object = _ObjectEnd()

    @property
    def held(self) -> int:
        """Characters of the head that is open: few."""
        return len(self._head)

    def feed(self, text: str) -> Sequence[Found]:
        """Take more text; return the text, thoughts and calls that are known to be such."""
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
        """Something else than text comes next; a call or a head that is open stays so."""
        if self._state in {"head", "stripped head", "stripped call"}:
            return ()
        found: list[Found] = []
        waiting, self._waiting = self._waiting, ""
        self._put(waiting, found)
        return found

    def damage(self) -> Sequence[Found]:
        """Some of the text may be lost here: a head that is open may name another tool."""
        return self.flush()

    def flush(self) -> Sequence[Found]:
        """No more text comes: a head without an end was none."""
        if self._head:
            self._waiting, self._head = self._head + self._waiting, ""
            self._state = "text"
        return self.settle()

    def _feed_body(self, text: str, found: list[Found]) -> str:
        """Take the body of a message; return what comes behind it."""
        marks = _IN_TEXT if self._state == "text" else _IN_BODY
        said, mark, rest = split_at_mark(text, marks)
        self._put(said, found)
        if not mark:
            self._waiting = rest
            return ""
        self._state = "text"
        if mark not in _ENDS:
            self._head = mark
            self._state = "stripped head" if mark in _STRIPPED else "head"
        return rest

    def _feed_head(self, text: str, found: list[Found]) -> str:
        """Take the head of a message; return what comes behind it."""
        end = "{" if self._state == "stripped head" else _MESSAGE
        said, mark, rest = split_at_mark(text, (end,))
        if len(self._head) + len(said) > _MAX_HEAD or (mark and not self._opens(said)):
            return self._give_up(text, found)
        if mark:
            return self._open(said, rest, found)
        self._head += said
        self._waiting = rest
        return ""

    def _opens(self, said: str) -> bool:
        """Whether this is all of a head."""
        return self._state == "head" or self._stripped_name(said) is not None

    def _stripped_name(self, said: str) -> str | None:
        head = self._head + said
        named = _STRIPPED_HEAD.fullmatch(head, head.index(_STRIPPED[0]) + len(_STRIPPED[0]))
        return named[1] if named else None

    def _open(self, said: str, rest: str, found: list[Found]) -> str:
        """A head is whole; return what comes behind it."""
        if self._state == "stripped head":
            self._begin_call(self._stripped_name(said) or "", found)
            self._state = "stripped call"
            self._object = _ObjectEnd()
            rest = "{" + rest
        else:
            head = self._head + said
            channel, recipient = _CHANNEL.search(head), _RECIPIENT.search(head)
            if recipient:
                self._begin_call(recipient[1], found)
                self._state = "call"
            else:
                self._state = "thought" if channel and channel[1] == "analysis" else "text"
        self._head = ""
        return rest

    def _give_up(self, text: str, found: list[Found]) -> str:
        """It was no head: its mark is text, and what follows is looked at anew."""
        mark = next(one for one in _IN_TEXT if self._head.startswith(one))
        text = self._head.removeprefix(mark) + text
        self._head, self._state = "", "text"
        self._put(mark, found)
        return text

    def _feed_object(self, text: str, found: list[Found]) -> str:
        """Take arguments that end with their object; return what comes behind it."""
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
        """Add text to what it belongs to."""
        if not text:
            return
        if self._state in {"call", "stripped call"}:
            found.append(ToolCallDelta(FIRST_INDEX + self._count, "", "", text))
        else:
            found.append(ThinkingDelta(text) if self._state == "thought" else TextDelta(text))


class _ObjectEnd:
    """Finds the end of a JSON object that streams, by its brackets."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def find(self, text: str) -> int:
        """Where in this piece the object has ended; 0 if it has not."""
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

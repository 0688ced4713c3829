"""Calls that a model writes into its text, between tags: `<tool_call>…</tool_call>`.

Owns the text of one answer of an endpoint that is declared to hand such calls through. Between the
tags stands either JSON, `{"name": …, "arguments": …}` (Hermes, Qwen), or
`<function=NAME><parameter=KEY>VALUE</parameter>…</function>` (Qwen3-Coder), whose values are text
unless the tool's schema says otherwise.

Text before a tag is let through at once. The beginning of a tag waits until it is known whether it
is one; if not, it is text. What stands between the tags waits for the end, since a call begins with
its name and that may stand last. What is no call there becomes one that cannot be carried out, and
shows what came; so does a call whose end never came, unless it is whole all the same. Blanks
between calls are no text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, nests_deeper
from agent_actors.domain.model import TextDelta, ThinkingDelta, ToolCallDelta, ToolSpec
from agent_actors.protocol.response.arguments import GoodArguments, parse_arguments
from agent_actors.protocol.response.markers import split_at_mark

# What may be found in text.
Found: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta

FIRST_INDEX: Final = 1 << 20
"""Calls in text are numbered from here, so that they are not taken for calls of the wire."""

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_FUNCTION: Final = "<function="
_END_FUNCTION: Final = "</function>"
_PARAMETER: Final = "<parameter="
_END_PARAMETER: Final = "</parameter>"
_NAMED: Final = re.compile(r'"name"\s*:\s*"([^"\\]{1,128})"|<function=([^<>\s]{1,128})>')


class TextCalls(Protocol):
    """Finds the calls in the text of one answer."""

    @property
    def held(self) -> int:
        """Characters that wait until it is known what they are."""
        ...

    def feed(self, text: str) -> Sequence[Found]:
        """Take more text; return the text, thoughts and calls that are known to be such."""
        ...

    def settle(self) -> Sequence[Found]:
        """Something else than text comes next: a mark that only began was none."""
        ...

    def damage(self) -> Sequence[Found]:
        """Some of the text may be lost here: a call that is open cannot be carried out."""
        ...

    def flush(self) -> Sequence[Found]:
        """No more text comes: what waits is what it is."""
        ...


class TagCalls:
    """`TextCalls` between tags.

    Args:
        tools: The tools on offer: their schemas tell which values are text.
        lenient: Whether a call that is nearly JSON is read as what it means, and marked.
    """

    def __init__(self, tools: Iterable[ToolSpec] = (), *, lenient: bool = False) -> None:
        self._schemas = {tool.name: tool.input_schema or {} for tool in tools}
        self._lenient = lenient
        self._waiting = ""
        # What came since the tag, but for what waits; None outside of tags.
        self._inside: list[str] | None = None
        # Blanks since a call, which count only if text follows; None if text has followed.
        self._blanks: str | None = None
        # True if some of the open call may be lost.
        self._damaged = False
        self._count = 0

    @property
    def held(self) -> int:
        """Characters of the call that is open."""
        return sum(map(len, self._inside or ()))

    def feed(self, text: str) -> Sequence[Found]:
        """Take more text; return the text and the calls that are known to be such."""
        found: list[Found] = []
        text, self._waiting = self._waiting + text, ""
        while text:
            if self._inside is None:
                said, mark, rest = split_at_mark(text, (_OPEN,))
                found += self._said(said)
                if mark:
                    self._inside = []
            else:
                said, mark, rest = split_at_mark(text, (_CLOSE,))
                self._inside.append(said)
                if mark:
                    found += self._end(whole=True)
            if not mark:
                self._waiting = rest
                break
            text = rest
        return found

    def settle(self) -> Sequence[Found]:
        """Something else than text comes next; a call that is open stays so."""
        if self._inside is not None:
            return ()
        waiting, self._waiting = self._waiting, ""
        return self._said(waiting)

    def damage(self) -> Sequence[Found]:
        """Some of the text may be lost here."""
        self._damaged = self._inside is not None
        return self.settle()

    def flush(self) -> Sequence[Found]:
        """No more text comes."""
        if self._inside is None:
            return self.settle()
        self._inside.append(self._waiting)
        self._waiting = ""
        return self._end(whole=False)

    def _said(self, text: str) -> list[Found]:
        if not text:
            return []
        if self._blanks is not None:
            text = self._blanks + text
            if text.isspace():
                self._blanks = text
                return []
            self._blanks = None
        return [TextDelta(text)]

    def _end(self, *, whole: bool) -> list[Found]:
        """What stood between the tags; not whole if the text ended before the second."""
        inside = "".join(self._inside or ())
        damaged, self._damaged = self._damaged, False
        self._inside = None
        if not inside.strip():
            return self._said(f"{_OPEN}{inside}{_CLOSE if whole else ''}")
        self._blanks = ""
        if damaged:
            return [self._broken(inside.strip())]
        return list(self._calls(inside.strip(), whole=whole))

    def _calls(self, inside: str, *, whole: bool) -> Iterator[Found]:
        if inside.startswith(_FUNCTION):
            called = _function(inside, self._schemas)
            yield self._broken(inside) if called is None else self._call(*called)
            return
        # Closed by its tag, it is no call that was cut off: then it may be repaired.
        for parsed in parse_arguments(inside, lenient=self._lenient and whole):
            name = parsed.input.get("name") if isinstance(parsed, GoodArguments) else None
            if isinstance(parsed, GoodArguments) and isinstance(name, str) and name:
                arguments = parsed.input.get("arguments", parsed.input.get("parameters"))
                given = {} if arguments is None else arguments
                yield self._call(name, given, repaired=parsed.repaired)
            else:
                yield self._broken(parsed.raw or inside)

    def _call(self, name: str, arguments: JsonValue, *, repaired: bool = False) -> ToolCallDelta:
        if not isinstance(arguments, str | dict):
            arguments = msgspec.json.encode(arguments).decode()
        self._count += 1
        index = FIRST_INDEX + self._count
        return ToolCallDelta(index, "", name, arguments, repaired=repaired)

    def _broken(self, inside: str) -> ToolCallDelta:
        """A call that cannot be carried out: with the tag before it, its text is never JSON."""
        named = _NAMED.search(inside)
        # A name of blanks is none; with no name at all it would go on with the call before it.
        name = (named[1] or named[2]) if named else " "
        return self._call(name, _OPEN + inside)


def _function(
    text: str, schemas: Mapping[str, Mapping[str, JsonValue]]
) -> tuple[str, JsonObject] | None:
    """Name and arguments of a call in the form of Qwen3-Coder; None if it is none."""
    head, closed, body = text.partition(">")
    name = head.removeprefix(_FUNCTION).strip()
    body = body.rstrip()
    if not (name and closed and body.endswith(_END_FUNCTION)):
        return None
    body = body.removesuffix(_END_FUNCTION).strip()
    properties = schemas.get(name, {}).get("properties")
    known: JsonObject = properties if isinstance(properties, dict) else {}
    arguments: JsonObject = {}
    while body:
        parameter, closed, rest = body.partition(_END_PARAMETER)
        key, opened, value = parameter.removeprefix(_PARAMETER).partition(">")
        if not (parameter.startswith(_PARAMETER) and closed and opened) or key in arguments:
            return None
        # The template puts each value on lines of its own.
        value = value.removeprefix("\n").removesuffix("\n")
        arguments[key] = _value(value, known.get(key))
        body = rest.lstrip()
    return name, arguments


def _value(text: str, schema: JsonValue) -> JsonValue:
    """A value as its schema wants it: text, unless it cannot be text and is JSON."""
    if not isinstance(schema, dict) or _takes_text(schema):
        return text
    if nests_deeper(text, MAX_DEPTH - 1):  # the arguments around it are a level of their own
        return text
    try:
        return cast(JsonValue, msgspec.json.decode(text))
    except msgspec.DecodeError:
        return text


def _takes_text(schema: JsonObject) -> bool:
    kind, choices = schema.get("type"), schema.get("anyOf")
    if kind is not None:
        return kind == "string" or (isinstance(kind, list) and "string" in kind)
    if isinstance(choices, list):
        return any(isinstance(one, dict) and _takes_text(one) for one in choices)
    return True

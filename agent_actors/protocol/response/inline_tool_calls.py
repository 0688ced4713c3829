"""Tool calls that a model writes into its text between tags: `<tool_call>…</tool_call>`.

`TagCalls` owns the text of one response, for endpoints that are declared to pass such calls
through. The content between the tags is either JSON, `{"name": …, "arguments": …}` (Hermes, Qwen),
or `<function=NAME><parameter=KEY>VALUE</parameter>…</function>` (Qwen3-Coder). In the second form,
values are text unless the schema of the tool specifies another type.

Text before a tag is passed on immediately. Text that may be the beginning of a tag is held back
until this is known. The content between the tags is held back until the closing tag, because a call
must start with its name, and the name may be at the end of the content. Content that is not a valid
call becomes a call that cannot be executed and that contains the received text. The same applies to
a call without a closing tag, unless its content is complete. Whitespace between calls is not passed
on.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, cast

import msgspec

from agent_actors.domain.json import MAX_DEPTH, JsonObject, JsonValue, nests_deeper
from agent_actors.domain.model import TextDelta, ThinkingDelta, ToolCallDelta, ToolSpec
from agent_actors.protocol.response.arguments import GoodArguments, parse_arguments
from agent_actors.protocol.response.markers import split_at_mark

# The kinds of deltas that text can contain.
Found: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta

FIRST_INDEX: Final = 1 << 20
"""The index of the first call found in text. It is high so that it does not collide with indexes
from the wire format.
"""

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_FUNCTION: Final = "<function="
_END_FUNCTION: Final = "</function>"
_PARAMETER: Final = "<parameter="
_END_PARAMETER: Final = "</parameter>"
_NAMED: Final = re.compile(r'"name"\s*:\s*"([^"\\]{1,128})"|<function=([^<>\s]{1,128})>')


class TextCalls(Protocol):
    """Finds the calls in the text of one response."""

    @property
    def held(self) -> int:
        """The number of characters that are held back until their meaning is known."""
        ...

    def feed(self, text: str) -> Sequence[Found]:
        """Process more text; return the text, thinking and calls that are certain."""
        ...

    def settle(self) -> Sequence[Found]:
        """Return text that was held back as a possible marker, before a delta that is not text."""
        ...

    def damage(self) -> Sequence[Found]:
        """Handle a loss of text: a call that is open cannot be executed."""
        ...

    def flush(self) -> Sequence[Found]:
        """Return the remaining content at the end of the text."""
        ...


class TagCalls:
    """Finds calls between tags; implements `TextCalls`.

    Args:
        tools: The available tools; their schemas define which values are text.
        lenient: True to repair calls that are almost valid JSON, and to mark them as repaired.
    """

    def __init__(self, tools: Iterable[ToolSpec] = (), *, lenient: bool = False) -> None:
        self._schemas = {tool.name: tool.input_schema or {} for tool in tools}
        self._lenient = lenient
        self._waiting = ""
        # The chunks since the opening tag, without held-back text; None outside of tags.
        self._inside: list[str] | None = None
        # Whitespace since the last call, which is passed on only if text follows; None once text
        # has followed.
        self._blanks: str | None = None
        # True if a part of the open call may be lost.
        self._damaged = False
        self._count = 0

    @property
    def held(self) -> int:
        """The number of characters in the open call."""
        return sum(map(len, self._inside or ()))

    def feed(self, text: str) -> Sequence[Found]:
        """Process more text; return the text and the calls that are certain."""
        found: list[Found] = []
        text, self._waiting = self._waiting + text, ""
        while text:
            if self._inside is None:
                before, mark, rest = split_at_mark(text, (_OPEN,))
                found += self._said(before)
                if mark:
                    self._inside = []
            else:
                before, mark, rest = split_at_mark(text, (_CLOSE,))
                self._inside.append(before)
                if mark:
                    found += self._end(complete=True)
            if not mark:
                self._waiting = rest
                break
            text = rest
        return found

    def settle(self) -> Sequence[Found]:
        """Return text that was held back as a possible tag; an open call stays open."""
        if self._inside is not None:
            return ()
        waiting, self._waiting = self._waiting, ""
        return self._said(waiting)

    def damage(self) -> Sequence[Found]:
        """Handle a loss of text: a call that is open cannot be executed."""
        self._damaged = self._inside is not None
        return self.settle()

    def flush(self) -> Sequence[Found]:
        """Return the remaining content at the end of the text."""
        if self._inside is None:
            return self.settle()
        self._inside.append(self._waiting)
        self._waiting = ""
        return self._end(complete=False)

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

    def _end(self, *, complete: bool) -> list[Found]:
        """Return the calls between two tags; `complete` is False if the closing tag is missing."""
        inside = "".join(self._inside or ())
        damaged, self._damaged = self._damaged, False
        self._inside = None
        if not inside.strip():
            return self._said(f"{_OPEN}{inside}{_CLOSE if complete else ''}")
        self._blanks = ""
        if damaged:
            return [self._broken(inside.strip())]
        return list(self._calls(inside.strip(), complete=complete))

    def _calls(self, inside: str, *, complete: bool) -> Iterator[Found]:
        if inside.startswith(_FUNCTION):
            called = _function(inside, self._schemas)
            yield self._broken(inside) if called is None else self._call(*called)
            return
        # A call with a closing tag was not cut off, so it may be repaired.
        for parsed in parse_arguments(inside, lenient=self._lenient and complete):
            name = parsed.input.get("name") if isinstance(parsed, GoodArguments) else None
            if isinstance(parsed, GoodArguments) and isinstance(name, str) and name:
                arguments = parsed.input.get("arguments", parsed.input.get("parameters"))
                tool_input = {} if arguments is None else arguments
                yield self._call(name, tool_input, repaired=parsed.repaired)
            else:
                yield self._broken(parsed.raw or inside)

    def _call(self, name: str, arguments: JsonValue, *, repaired: bool = False) -> ToolCallDelta:
        if not isinstance(arguments, str | dict):
            arguments = msgspec.json.encode(arguments).decode()
        self._count += 1
        index = FIRST_INDEX + self._count
        return ToolCallDelta(index, "", name, arguments, repaired=repaired)

    def _broken(self, inside: str) -> ToolCallDelta:
        """Return a call that cannot be executed: with the opening tag, its text is not JSON."""
        named = _NAMED.search(inside)
        # A blank name means that there is no name. With an empty name, the delta would continue the
        # previous call.
        name = (named[1] or named[2]) if named else " "
        return self._call(name, _OPEN + inside)


def _function(
    text: str, schemas: Mapping[str, Mapping[str, JsonValue]]
) -> tuple[str, JsonObject] | None:
    """Parse a call in the Qwen3-Coder form; None if it is invalid."""
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
        # The chat template puts each value on separate lines.
        value = value.removeprefix("\n").removesuffix("\n")
        arguments[key] = _value(value, known.get(key))
        body = rest.lstrip()
    return name, arguments


def _value(text: str, schema: JsonValue) -> JsonValue:
    """Convert a value to its schema's type: JSON if the schema does not accept text, else text."""
    if not isinstance(schema, dict) or _takes_text(schema):
        return text
    if nests_deeper(text, MAX_DEPTH - 1):  # the object of arguments is one more level
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
        return any(isinstance(item, dict) and _takes_text(item) for item in choices)
    return True

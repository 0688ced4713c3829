"""Rules: `Tool`, `Tool(pattern)` and `Tool(field=pattern, other=pattern)`, read once.

The name is a glob and meets the tool's name exactly, in case and blanks. A pattern without a field
meets the call's main argument, which is a matter of the tool, never of what the model sent: the
first field of `FIELDS` in its schema, else its only one. Fields named together have to match
together. What a rule cannot look at (an argument that is missing, or no plain value) it never
permits, and restricts if it is the main argument that is not to be told.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Final, Self

import attrs

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.permissions.globs import Glob, escaped, glob
from agent_actors.permissions.patterns import FIELDS, Kind, Pattern
from agent_actors.tools import Tool

_NAME: Final = re.compile(r"[\w*?\[\]!-]+", re.ASCII)
_FIELD: Final = re.compile(r"([A-Za-z_][\w-]*)=", re.ASCII)
_NEXT_FIELD: Final = re.compile(r",\s*(?=[A-Za-z_][\w-]*=)", re.ASCII)
_MAGIC: Final = frozenset("*?[")


@attrs.frozen
class Rule:
    """A rule, ready to be used.

    Attributes:
        text: As it was written.
        name: The part before the bracket.
        fields: The patterns by field; without a field under the empty name.
    """

    text: str
    name: str
    fields: Mapping[str, Pattern]
    _glob: Glob
    _whole: Pattern | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule.

        Raises:
            ConfigError: Naming the rule, and what about it cannot be read.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - rules come from files
            raise ConfigError(f"a permission rule is text such as 'Bash(git *)'; got {text!r:.80}")
        name, bracket, rest = text.partition("(")
        body = rest.removesuffix(")")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"permission rule {text!r}: expected a tool's name, with or without '*', as in "
                f"'Bash' or 'Bash(git *)'; got {name!r} for a name"
            )
        if bracket and not rest.endswith(")"):
            raise ConfigError(f"permission rule {text!r}: it has to end with ')'")
        if not bracket:
            return cls(text, name, {}, glob(name), None)
        if body != body.strip() or not body:
            raise ConfigError(
                f"permission rule {text!r}: the pattern is empty or has blanks around it; for any "
                f"argument write {name!r}"
            )
        try:
            fields = _fields(body)
            whole = None if "" in fields else _maybe_pattern(body)
        except ConfigError as error:
            raise ConfigError(f"permission rule {text!r}: {error}") from None
        return cls(text, name, fields, glob(name), whole)

    @property
    def is_bare(self) -> bool:
        """Whether it is about a tool as such, whatever the arguments."""
        return not self.fields or (set(self.fields) == {""} and self.fields[""].text in ("*", "**"))

    @property
    def is_exact(self) -> bool:
        """Whether it names one tool, and no glob."""
        return not _MAGIC & set(self.name)

    def names(self, name: str) -> bool:
        """Whether it is about a tool of this name."""
        return self._glob.fullmatch(name) is not None

    def permits(self, tool: Tool, arguments: JsonObject, cwd: PurePath) -> bool:
        """Whether the call is one of these, beyond doubt."""
        if not self.names(tool.name):
            return False
        if self.is_bare:
            return True
        for field, pattern in self.fields.items():
            where = field or main_argument(tool)
            if not where or where not in arguments:
                return False
            kind = FIELDS.get(where)
            value = arguments[where]
            is_command = (pattern.kind or kind) is Kind.COMMAND
            texts = (is_command and _joined(value)) or _plain_texts(value)
            if not texts or not all(pattern.permits(text, kind, cwd) for text in texts):
                return False
        return True

    def restricts(self, tool: Tool, arguments: JsonObject, cwd: PurePath) -> bool:
        """Whether the call may be one of these."""
        if not self.names(tool.name):
            return False
        if self.is_bare:
            return True
        found = (
            self._finds(field, pattern, tool, arguments, cwd)
            for field, pattern in self.fields.items()
        )
        if all(found):
            return True
        # Of `Bash(FOO=* make)` it cannot be told here that FOO is no field, but the tool knows.
        return (
            self._whole is not None
            and not any(self._knows(tool, arguments, field) for field in self.fields)
            and self._finds("", self._whole, tool, arguments, cwd)
        )

    def unknown_field(self, tool: Tool) -> str:
        """A field that the rule looks at and the tool never has; empty if there is none."""
        schema = tool.input_schema
        if schema is None or schema.get("additionalProperties") is not False:
            return ""
        return next((field for field in self.fields if field and field not in _known(tool)), "")

    def _knows(self, tool: Tool, arguments: JsonObject, field: str) -> bool:
        return field in _known(tool) or field in arguments

    def _finds(
        self, field: str, pattern: Pattern, tool: Tool, arguments: JsonObject, cwd: PurePath
    ) -> bool:
        where = field or main_argument(tool)
        if not where:  # whichever it is
            return any(
                pattern.restricts(text, FIELDS.get(name), cwd, is_meant=False)
                for name, value in arguments.items()
                for text in _possible_texts(value, pattern.kind or FIELDS.get(name))
            )
        if where in arguments:
            value = arguments[where]
        else:
            known = _known(tool).get(where)
            if not isinstance(known, dict) or "default" not in known:
                return False
            value = known["default"]
        is_meant = bool(field) or self.is_exact
        return any(
            pattern.restricts(text, FIELDS.get(where), cwd, is_meant=is_meant)
            for text in _possible_texts(value, pattern.kind or FIELDS.get(where))
        )


def parse_rules(rules: str | Rule | Iterable[str | Rule]) -> tuple[Rule, ...]:
    """Rules, read; one alone will do.

    Raises:
        ConfigError: Naming the rule, and what about it cannot be read.
    """
    items = (rules,) if isinstance(rules, str | Rule) else tuple(rules)
    return tuple(item if isinstance(item, Rule) else Rule.parse(item) for item in items)


def main_argument(tool: Tool) -> str:
    """The field that a rule without a field looks at; empty if it is not to be told."""
    known = _known(tool)
    for field in FIELDS:
        if field in known:
            return field
    return next(iter(known)) if len(known) == 1 else ""


def rule_for(tool: Tool, arguments: JsonObject, cwd: PurePath) -> str:
    """A rule for what a person would mean by "always": this path, whatever is done to it.

    Empty where only the very same arguments can be meant: the tool has another argument that says
    where something happens, or its main one is no path.
    """
    located = [field for field in _known(tool) if field in FIELDS]
    if len(located) != 1 or FIELDS[located[0]] is not Kind.PATH:
        return ""
    value = arguments.get(located[0])
    if not isinstance(value, str):
        return ""
    # Without a slash it would mean a name at any depth.
    exact = escaped(value if "/" in value else f"./{value}")
    text = f"{tool.name}({located[0]}=path:{exact})"
    try:
        rule = Rule.parse(text)
    except ConfigError:
        return ""
    means_it = set(rule.fields) == {located[0]} and rule.permits(tool, arguments, cwd)
    return text if means_it else ""


def _fields(body: str) -> dict[str, Pattern]:
    if not _FIELD.match(body):
        return {"": Pattern.parse(body)}
    fields: dict[str, Pattern] = {}
    for part in _NEXT_FIELD.split(body):
        field, _, pattern = part.partition("=")
        if field in fields:
            raise ConfigError(f"the field {field!r} is named twice")
        fields[field] = Pattern.parse(pattern)
    return fields


def _maybe_pattern(body: str) -> Pattern | None:
    try:
        return Pattern.parse(body)
    except ConfigError:
        return None


def _known(tool: Tool) -> Mapping[str, JsonValue]:
    properties = None if tool.input_schema is None else tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _plain_texts(value: JsonValue) -> list[str]:
    """A plain value, or a list of such, as texts; none if there is anything else in it."""
    items = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(item, list | tuple | dict) for item in items):
        return []
    return [_text(item) for item in items]


def _possible_texts(value: JsonValue, kind: Kind | None) -> Iterator[str]:
    """Every text of a value, and the commands that its words can make."""
    yield from _all_texts(value)
    if kind in (Kind.COMMAND, None):
        yield from _joined(value)


def _joined(value: JsonValue) -> list[str]:
    """The lines of shell that a list of words can mean, if it is one.

    A tool may run the words as one command, or join them with blanks and give the line to a shell.
    """
    words = _plain_texts(value) if isinstance(value, list | tuple) else []
    return [shlex.join(words), " ".join(words)] if words else []


def _all_texts(value: JsonValue) -> Iterator[str]:
    """Every plain value in it, keys of objects too, as texts."""
    left: list[JsonValue] = [value]
    while left:
        match left.pop():
            case dict() as inner:
                left.extend(inner.keys())
                left.extend(inner.values())
            case list() | tuple() as items:
                left.extend(items)
            case plain:
                yield _text(plain)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)

"""Parsed permission rules: `Tool`, `Tool(pattern)` and `Tool(field=pattern, other=pattern)`.

The tool name in a rule is a glob and must match the tool's name exactly, including case and blanks.
A pattern without a field applies to the main argument of the call. The main argument is determined
by the tool's schema, not by the arguments that the model sent: it is the first field in `FIELDS`
that the schema has, or the schema's only field. For a tool that declares `paths`, a pattern without
a field applies to these paths: an allow rule must match all of them, a deny or ask rule one. If a
rule names several fields, all of them must match.

An allow rule never matches an argument that is missing or is not a plain value. If the main
argument is unknown, a deny or ask rule matches if any argument of the call may match.
"""

import json
import logging
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Final, Self

import attrs

from agent_actors.domain.json import JsonObject, JsonValue, copy_object
from agent_actors.errors import ConfigError
from agent_actors.permissions.globs import Glob, escaped, glob
from agent_actors.permissions.patterns import FIELDS, Kind, Pattern
from agent_actors.permissions.shell.programs import find_execution_risk
from agent_actors.tools import Tool

_log: Final = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[\w*?\[\]!-]+", re.ASCII)
_FIELD: Final = re.compile(r"([A-Za-z_][\w-]*)=", re.ASCII)
_NEXT_FIELD: Final = re.compile(r",\s*(?=[A-Za-z_][\w-]*=)", re.ASCII)
_MAGIC: Final = frozenset("*?[")


@attrs.frozen
class Rule:
    """A parsed rule.

    Attributes:
        text: The rule as written.
        name: The part before the parenthesis.
        fields: The patterns by field name. The empty name means the main argument.
    """

    text: str
    name: str
    fields: Mapping[str, Pattern]
    _glob: Glob
    _whole: Pattern | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a rule.

        Raises:
            ConfigError: The rule is invalid; the message names the rule and the problem.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - rules come from files
            raise ConfigError(f"expected a permission rule such as 'Bash(git *)'; got {text!r:.80}")
        name, bracket, rest = text.partition("(")
        body = rest.removesuffix(")")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"permission rule {text!r}: expected a tool name, optionally with '*', as in "
                f"'Bash' or 'Bash(git *)'; got the name {name!r}"
            )
        if bracket and not rest.endswith(")"):
            raise ConfigError(f"permission rule {text!r}: the rule must end with ')'")
        if not bracket:
            return cls(text, name, {}, glob(name), None)
        if body != body.strip() or not body:
            raise ConfigError(
                f"permission rule {text!r}: the pattern is empty or surrounded by blanks; to match "
                f"any argument, write {name!r}"
            )
        try:
            fields = _fields(body)
            body_pattern = None if "" in fields else _maybe_pattern(body)
        except ConfigError as error:
            raise ConfigError(f"permission rule {text!r}: {error}") from None
        return cls(text, name, fields, glob(name), body_pattern)

    @property
    def is_bare(self) -> bool:
        """True if the rule applies to every call of the tool, regardless of its arguments."""
        return not self.fields or (set(self.fields) == {""} and self.fields[""].text in ("*", "**"))

    @property
    def execution_risk(self) -> str:
        """The way in which an allowed call could run any other program; empty if none is known."""
        risks = (
            find_execution_risk(pattern.body)
            for field, pattern in self.fields.items()
            if pattern.kind is Kind.COMMAND
            or (pattern.kind is None and FIELDS.get(field, Kind.COMMAND) is Kind.COMMAND)
        )
        return next(filter(None, risks), "")

    @property
    def is_exact(self) -> bool:
        """True if the rule's tool name is not a glob."""
        return not _MAGIC & set(self.name)

    def names(self, name: str) -> bool:
        """Return whether the rule is about a tool with this name."""
        return self._glob.fullmatch(name) is not None

    def permits(self, tool: Tool, arguments: JsonObject, cwd: PurePath) -> bool:
        """Return whether the call certainly matches."""
        if not self.names(tool.name):
            return False
        if self.is_bare:
            return True
        for field, pattern in self.fields.items():
            if _is_about_paths(field, pattern, tool):
                paths = _declared_paths(tool, arguments)
                if not paths or not all(pattern.permits(one, Kind.PATH, cwd) for one in paths):
                    return False
                continue
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
        """Return whether the call may match."""
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
        # In `Bash(FOO=* make)`, only the tool shows that FOO is not one of its fields.
        return (
            self._whole is not None
            and not any(self._knows(tool, arguments, field) for field in self.fields)
            and self._finds("", self._whole, tool, arguments, cwd)
        )

    def unknown_field(self, tool: Tool) -> str:
        """Return a field of the rule that the tool never has; empty if there is none."""
        schema = tool.input_schema
        if schema is None or schema.get("additionalProperties") is not False:
            return ""
        return next((field for field in self.fields if field and field not in _known(tool)), "")

    def _knows(self, tool: Tool, arguments: JsonObject, field: str) -> bool:
        return field in _known(tool) or field in arguments

    def _finds(
        self, field: str, pattern: Pattern, tool: Tool, arguments: JsonObject, cwd: PurePath
    ) -> bool:
        if _is_about_paths(field, pattern, tool):
            paths = _declared_paths(tool, arguments)
            return paths is None or any(
                pattern.restricts(one, Kind.PATH, cwd, is_meant=self.is_exact) for one in paths
            )
        where = field or main_argument(tool)
        if not where:  # any argument may be the main one
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
    """Parse rules, or a single rule.

    Raises:
        ConfigError: A rule is invalid; the message names the rule and the problem.
    """
    items = (rules,) if isinstance(rules, str | Rule) else tuple(rules)
    return tuple(item if isinstance(item, Rule) else Rule.parse(item) for item in items)


def main_argument(tool: Tool) -> str:
    """Return the field to which a pattern without a field applies; empty if unknown."""
    known = _known(tool)
    for field in FIELDS:
        if field in known:
            return field
    return next(iter(known)) if len(known) == 1 else ""


def rule_for(tool: Tool, arguments: JsonObject, cwd: PurePath) -> str:
    """Return the rule to suggest for "always", which matches any call of the tool with this path.

    Returns:
        The rule, or an empty string if no rule is suitable, because another argument also says
        where the tool acts or because the main argument is not a path. In this case, "always"
        applies only to identical arguments.
    """
    located = [field for field in _known(tool) if field in FIELDS]
    if len(located) != 1 or FIELDS[located[0]] is not Kind.PATH:
        return ""
    value = arguments.get(located[0])
    if not isinstance(value, str):
        return ""
    # A pattern without a slash would match the name at any depth.
    exact = escaped(value if "/" in value else f"./{value}")
    text = f"{tool.name}({located[0]}=path:{exact})"
    try:
        rule = Rule.parse(text)
    except ConfigError:
        return ""
    means_it = set(rule.fields) == {located[0]} and rule.permits(tool, arguments, cwd)
    return text if means_it else ""


def _is_about_paths(field: str, pattern: Pattern, tool: Tool) -> bool:
    return tool.paths is not None and not field and pattern.kind in (Kind.PATH, None)


def _declared_paths(tool: Tool, arguments: JsonObject) -> Sequence[str] | None:
    """Return the paths that the arguments contain; None if they are unknown."""
    try:
        return () if tool.paths is None else tuple(tool.paths(copy_object(arguments)))
    except Exception:  # noqa: BLE001 - a user's function; without paths, the rule restricts
        _log.warning("tool %r: its function for paths failed", tool.name, exc_info=True)
        return None


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
    """Return a plain value, or a list of plain values, as texts; empty for any other value."""
    items = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(item, list | tuple | dict) for item in items):
        return []
    return [_text(item) for item in items]


def _possible_texts(value: JsonValue, kind: Kind | None) -> Iterator[str]:
    """Yield every text in a value, and the commands that lists of words can form."""
    yield from _all_texts(value)
    if kind in (Kind.COMMAND, None):
        yield from _joined(value)


def _joined(value: JsonValue) -> list[str]:
    """Return the shell lines that a list of words can mean; empty if the value is not such a list.

    A tool may run the words as one command, or join them with blanks and pass them to a shell.
    """
    words = _plain_texts(value) if isinstance(value, list | tuple) else []
    return [shlex.join(words), " ".join(words)] if words else []


def _all_texts(value: JsonValue) -> Iterator[str]:
    """Yield every plain value inside a value as text, including the keys of objects."""
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

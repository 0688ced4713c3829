"""The types of the fields of `AgentOptions`, as attrs validators.

An error names the field, the expected value, the value that was passed, and a remedy if one is
known. Keys and headers are never shown.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar, cast

import attrs

from agent_actors.domain.json import JsonValue
from agent_actors.domain.limits import MIN_MAX_RESULT_BYTES, Prices, UsageLimits
from agent_actors.domain.session import find_session_id_error
from agent_actors.domain.usage import TokenCallback
from agent_actors.errors import ConfigError
from agent_actors.options.agent_definition import AgentDefinition
from agent_actors.options.checkpoints import Checkpoints
from agent_actors.options.compaction import Compaction
from agent_actors.options.mcp_servers import McpServer
from agent_actors.options.validation import HEADER_RULE, fits_header, nearest
from agent_actors.options.workspace_config import WorkspaceSource
from agent_actors.permissions import CanUseTool, PermissionPolicy
from agent_actors.tools.builtin_names import BUILTIN_NAMES, VOCABULARIES
from agent_actors.tools.tool import ToolValidator

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_NONE: Final = type(None)
_PREVIEW_CHARACTERS: Final = 80  # shown of a value in an error

Check: TypeAlias = Callable[[str, object], str]
"""A check for a value of the right type: takes the field's name and the value, and returns an error
message or "".
"""


class _Named(Protocol):
    """The part of `attrs.Attribute` that validators use."""

    @property
    def name(self) -> str: ...


@attrs.frozen
class FieldType(Generic[T]):
    """An attrs validator for a field, with the accepted types and a check of the value.

    Loading from files and from the environment uses the types too.

    Attributes:
        types: The accepted types. `bool` counts as `int` only if `bool` is listed.
        expected: The types as they are named in errors.
        check: Checks a value that has one of the types.
        none_hint: The remedy to show if the value is None.
        secret: True if errors must not show the value.
        takes_text: True if a string converts to a value of this field, regardless of `types`.
    """

    types: tuple[type, ...]
    expected: str
    check: Check | None = attrs.field(default=None, kw_only=True)
    none_hint: str = attrs.field(default="", kw_only=True)
    secret: bool = attrs.field(default=False, kw_only=True)
    takes_text: bool = attrs.field(default=False, kw_only=True)

    def __call__(self, _options: object, field: _Named, value: T) -> None:
        """Check a value; called by attrs.

        Raises:
            ConfigError: The value has another type, or the check rejected it.
        """
        # Programs may create many options, and the exact type is by far the most frequent case.
        if type(value) not in self.types and not self._accepts(value):
            error = (
                f"{field.name} must be {self.expected}; got {self._preview(value)}"
                f"{self._hint(value)}"
            )
        elif self.check is not None:
            error = self.check(field.name, value)
        else:
            return
        if error:
            raise ConfigError(f"AgentOptions: {error}")

    def _accepts(self, value: object) -> bool:
        return isinstance(value, self.types) and (type(value) is not bool or bool in self.types)

    def _preview(self, value: object) -> str:
        if self.secret:
            return f"a value of type {type(value).__name__}"
        text = repr(value)
        cut = text[:_PREVIEW_CHARACTERS]
        return text if len(text) <= _PREVIEW_CHARACTERS else f"{cut}…"

    def _hint(self, value: object) -> str:
        if value is None:
            return self.none_hint
        if PermissionPolicy in self.types and isinstance(value, Mapping):
            fields = ", ".join(f"{key}=…" for key in cast("Mapping[object, object]", value))
            return f"; write PermissionPolicy({fields})"
        return ""


def _check_instructions(name: str, value: object) -> str:
    if isinstance(value, str) or callable(value):
        return ""
    return f"{name} must be a string, or a function that takes an AgentContext; got {value!r:.80}"


def at_least(least: int, *, unlimited: str = "") -> Check:
    """Return a check that a count is at least `least`, or None.

    Args:
        least: The smallest count.
        unlimited: The part of the error that describes the value for "no limit".
    """

    def check(name: str, value: object) -> str:
        if value is None or cast(float, value) >= least:
            return ""
        if least == 0:
            return f"{name} must not be negative; got {value}"
        return f"{name} must be at least {least}{unlimited}; got {value}"

    return check


def in_range(low: float, high: float) -> Check:
    """Return a check that a sampling setting is within the range for OpenAI's chat completions."""

    def check(name: str, value: object) -> str:
        if value is None or low <= cast(float, value) <= high:
            return ""
        return (
            f"{name} must be from {low} to {high}, or None to not send it; got {value}; if your "
            f"endpoint accepts more, pass it as extra_body={{{name!r}: …}}"
        )

    return check


def one_of(*choices: str, or_none: bool = False) -> Check:
    """Return a check that a string is one of these or, with `or_none`, None."""

    def check(name: str, value: object) -> str:
        if value in choices or (or_none and value is None):
            return ""
        listed = " or ".join(map(repr, choices))
        return f"{name} must be {listed}; got {value!r:.80}"

    return check


def _check_seconds(name: str, value: object) -> str:
    if cast(float, value) > 0:
        return ""
    return f"{name} must be above 0 seconds, or math.inf for no deadline; got {value}"


def _check_headers(_name: str, value: object) -> str:
    for name, content in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str) or not isinstance(content, str):
            return f"headers must map strings to strings; the entry {name!r:.80} does not"
        if not (name and fits_header(name) and " " not in name):
            return f"headers: {name!r:.80} is not a valid HTTP header name"
        if not fits_header(content):
            return f"headers: the value of {name!r:.80} {HEADER_RULE}"
    return ""


def _check_stop(_name: str, value: object) -> str:
    for text in cast("tuple[object, ...]", value):
        if not isinstance(text, str) or not text:
            return f"stop must contain non-empty strings; got {text!r:.80}"
    return ""


def _check_builtin_tools(_name: str, value: object) -> str:
    known = (*VOCABULARIES, *BUILTIN_NAMES)
    for name in cast("tuple[object, ...]", value):
        if name not in known:
            return f"unknown built-in tool {name!r:.80}; {nearest(str(name), known)}"
    return ""


def _check_session_id(name: str, value: object) -> str:
    error = None if value is None else find_session_id_error(cast(str, value))
    return "" if error is None else f"{name}: {error}"


def _check_callable(name: str, value: object) -> str:
    if value is None or callable(value):
        return ""
    return f"{name} must be a function, or None; got {value!r:.80}"


def _check_client(name: str, value: object) -> str:
    # httpx is not imported here, because importing it is slow and the package is optional.
    if value is None or inspect.iscoroutinefunction(getattr(value, "send", None)):
        return ""
    return f"{name} must be an httpx.AsyncClient, or None; got {value!r:.80}"


_FROM_ENVIRONMENT: Final = "; omit it to take it from the environment"

TEXT: Final = FieldType[str]((str,), "a string")
INSTRUCTIONS: Final = FieldType[object](
    (str, object),
    "a string",
    check=_check_instructions,
)
TEXT_OR_ENVIRONMENT: Final = FieldType[str]((str,), "a string", none_hint=_FROM_ENVIRONMENT)
TEXT_OR_NONE: Final = FieldType[str | None]((str, _NONE), "a string, or None")
SESSION_ID: Final = FieldType[str | None](
    (str, _NONE), "the id of a session, or None", check=_check_session_id
)
KEY: Final = FieldType[str]((str,), "a string", none_hint=_FROM_ENVIRONMENT, secret=True)
HEADERS: Final = FieldType[Mapping[str, str]](
    (dict, Mapping), "a mapping", check=_check_headers, secret=True
)
MAPPING: Final = FieldType[Mapping[str, JsonValue]]((dict, Mapping), "a mapping")
SWITCH: Final = FieldType[bool]((bool,), "True or False")
SWITCH_OR_NONE: Final = FieldType[bool | None]((bool, _NONE), "True, False or None")
WHOLE: Final = FieldType[int]((int,), "a whole number")
WHOLE_OR_NONE: Final = FieldType[int | None]((int, _NONE), "a whole number, or None")
SECONDS: Final = FieldType[float](
    (float, int),
    "a number of seconds",
    check=_check_seconds,
    none_hint="; math.inf means no deadline",
)
AMOUNT: Final = FieldType[float](
    (float, int),
    "a whole number, or math.inf",
    check=at_least(1, unlimited=", or math.inf for any number"),
)
RESULT_BYTES: Final = FieldType[float](
    (float, int),
    "a whole number, or math.inf",
    check=at_least(MIN_MAX_RESULT_BYTES, unlimited=", or math.inf for no limit"),
)
STOP: Final = FieldType[tuple[str, ...]](
    (tuple,), "a list of strings", check=_check_stop, takes_text=True
)
BUILTIN_TOOLS: Final = FieldType[tuple[str, ...]](
    (tuple,), "a list of names", check=_check_builtin_tools, takes_text=True
)
# Not checked here, because the converter has checked the value.
CHECKPOINTS: Final = FieldType[Checkpoints | None](
    (object,), "True, False, a directory or a table", takes_text=True
)
AGENTS: Final = FieldType[Mapping[str, AgentDefinition]]((object,), "a table of agents")
COMPACTION: Final = FieldType[Compaction | None]((object,), "True, False or a table")
WORKSPACE: Final = FieldType[WorkspaceSource | None]((object,), "a table")
MCP_SERVERS: Final = FieldType[Mapping[str, McpServer]]((object,), "a table")
POLICY: Final = FieldType[PermissionPolicy | None](
    (_NONE, PermissionPolicy),
    "a PermissionPolicy, the name of a mode, or None",
    takes_text=True,
)
FUNCTION: Final = FieldType[CanUseTool | None](
    (object, bool), "a function, or None", check=_check_callable
)
TOOL_VALIDATOR: Final = FieldType[ToolValidator | None](
    (object, bool), "a function, or None", check=_check_callable
)
TOKEN_CALLBACK: Final = FieldType[TokenCallback | None](
    (object, bool), "a function, or None", check=_check_callable
)
HTTP_CLIENT: "Final[FieldType[httpx.AsyncClient | None]]" = FieldType(
    (object, bool), "an httpx.AsyncClient", check=_check_client
)
LIMITS: Final = FieldType[UsageLimits](
    (UsageLimits,), "a UsageLimits, as in UsageLimits(requests=20)"
)
PRICES: Final = FieldType[Prices | None](
    (Prices, _NONE), "a Prices, as in Prices(input=1.0, output=2.0), or None"
)
# Not checked here, but when the provider is resolved.
PROVIDER: Final = FieldType[object]((object, bool), "a provider", takes_text=True)
# Not checked here, because the converter has checked the value.
PATH: Final = FieldType[Path]((object,), "a path", takes_text=True)


def number_or_none(low: float, high: float) -> FieldType[float | None]:
    """Return the field type for a sampling setting within a range."""
    return FieldType((float, int, _NONE), "a number, or None", check=in_range(low, high))


def whole(least: int) -> FieldType[int]:
    """Return the field type for a count of at least `least`."""
    return FieldType((int,), "a whole number", check=at_least(least))


def whole_or_none(least: int, unlimited: str) -> FieldType[int | None]:
    """Return the field type for a count that may be None; `unlimited` describes what None means."""
    check = at_least(least, unlimited=unlimited)
    return FieldType((int, _NONE), "a whole number, or None", check=check)


def choice_or_none(*choices: str) -> FieldType[str | None]:
    """Return the field type for a string that is one of these, or None."""
    return FieldType((str, _NONE), "a string, or None", check=one_of(*choices, or_none=True))


def choice(*choices: str) -> FieldType[str]:
    """Return the field type for a string that is one of these."""
    return FieldType((str,), "a string", check=one_of(*choices))

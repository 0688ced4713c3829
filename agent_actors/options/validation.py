"""What an agent's options may hold, and what is said of what they may not.

Owns the kind of each field and the ranges of numbers. A fault is a sentence that names the field,
what it must be, what came, and where it helps what to write; keys and headers are never shown.
Options are made in great number, so what is as it should be costs one look at its type.
"""

import difflib
import functools
import inspect
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from agent_actors.domain.limits import fault_of as fault_of_limits
from agent_actors.permissions import PermissionPolicy

if TYPE_CHECKING:
    from agent_actors.options.agent_options import AgentOptions

_NONE: Final = type(None)
_SHOWN: Final = 80  # characters of what came
_TAKEN_IN: Final = 16  # names; a list of more hides the one that was meant

# Which types a field may have, and how that is put.
_TEXT: Final = ((str,), "a text")
_WHOLE: Final = ((int,), "a whole number")
_AMOUNT: Final = ((float, int), "a whole number, or math.inf")
_SECONDS: Final = ((float, int), "a number of seconds")
_SWITCH: Final = ((bool,), "True or False")
_NUMBER_OR_NONE: Final = ((float, int, _NONE), "a number, or None")
_WHOLE_OR_NONE: Final = ((int, _NONE), "a whole number, or None")
_TEXT_OR_NONE: Final = ((str, _NONE), "a text, or None")
_MAPPING: Final = ((dict, Mapping), "a mapping")

TIMEOUTS: Final = (
    "run_timeout",
    "connect_timeout",
    "first_token_timeout",
    "idle_timeout",
    "total_timeout",
    "tool_timeout",
    "hook_timeout",
    "question_timeout",
    "reader_stall",
)

KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "model": _TEXT,
    "base_url": _TEXT,
    "system_prompt": _TEXT,
    "max_tokens": _WHOLE_OR_NONE,
    "temperature": _NUMBER_OR_NONE,
    "top_p": _NUMBER_OR_NONE,
    "seed": _WHOLE_OR_NONE,
    "presence_penalty": _NUMBER_OR_NONE,
    "frequency_penalty": _NUMBER_OR_NONE,
    "tool_choice": _TEXT_OR_NONE,
    "parallel_tool_calls": ((bool, _NONE), "True, False or None"),
    "extra_body": _MAPPING,
    "api_key": _TEXT,
    "api_key_header": _TEXT_OR_NONE,
    "headers": _MAPPING,
    "include_usage": _SWITCH,
    "agent_name": _TEXT_OR_NONE,
    "max_iterations": _WHOLE,
    "auto_execute_tools": _SWITCH,
    "max_tool_iterations": _WHOLE,
    "max_turns": _WHOLE_OR_NONE,
    **dict.fromkeys(TIMEOUTS, _SECONDS),
    "max_retries": _WHOLE,
    "resume_max_events": _AMOUNT,
    "resume_max_bytes": _AMOUNT,
    "permissions": ((_NONE, PermissionPolicy), "a PermissionPolicy, the name of a mode, or None"),
    "on_ask": _TEXT,
    "on_suspended": _TEXT,
    "allow_message_rewrite": _SWITCH,
    "withhold_deltas": _SWITCH,
    "tool_deltas": _SWITCH,
    "allow_lenient_tool_json": _SWITCH,
    "output_retries": _WHOLE,
}
"""The fields whose type is looked at here. The others are judged by what reads them."""

_NAMES: Final = tuple(KINDS)
_TYPES: Final = tuple(types for types, _ in KINDS.values())
_values_of: Final = attrgetter(*_NAMES)

_SECRET: Final = frozenset({"api_key", "headers"})
_FROM_ENVIRONMENT: Final = frozenset({"model", "base_url", "api_key"})

_NO_HEADER: Final = (
    "must be printable ASCII without line breaks; look for a stray newline or quotation mark"
)

# What OpenAI's chat completions take; what an endpoint takes beyond goes into `extra_body`.
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
_LEAST: Final[Mapping[str, int]] = {
    "max_tokens": 1,
    "max_iterations": 1,
    "max_turns": 1,
    "max_tool_iterations": 0,
    "output_retries": 0,
    "resume_max_events": 1,
    "resume_max_bytes": 1,
}
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "on_ask": ("wait", "suspend"),
    "on_suspended": ("raise", "deny"),
}


def fault_of_types(options: "AgentOptions[object]") -> str:
    """What has the wrong type; empty if nothing has. To be asked before anything else."""
    for name, types, value in zip(_NAMES, _TYPES, _values_of(options), strict=True):
        if type(value) not in types and not _fits(value, types):
            return f"{name} must be {KINDS[name][1]}; got {_shown(name, value)}{_hint(name, value)}"
    headers = cast("Mapping[object, object]", options.headers)
    return _fault_of_texts(headers, options.stop) or _fault_of_objects(
        options.can_use_tool, options.http_client
    )


def _fits(value: object, types: tuple[type, ...]) -> bool:
    # A bool is an int to Python, and nowhere a number of anything.
    return isinstance(value, types) and not (isinstance(value, bool) and bool not in types)


def _shown(name: str, value: object) -> str:
    if name in _SECRET:
        return f"a value of type {type(value).__name__}"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _hint(name: str, value: object) -> str:
    if value is None and name in _FROM_ENVIRONMENT:
        return ", which stands for nothing here: leave it out to take it from the environment"
    if value is None and name in TIMEOUTS:
        return "; math.inf is no limit"
    if name == "permissions" and isinstance(value, Mapping):
        fields = ", ".join(f"{key}=…" for key in cast("Mapping[object, object]", value))
        return f"; write PermissionPolicy({fields})"
    return ""


def _fault_of_texts(headers: Mapping[object, object], stop: Iterable[object]) -> str:
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            return f"headers must map texts to texts; that of {name!r:.80} is none"
        if not (name and _goes_into_a_header(name) and " " not in name):
            return f"headers: {name!r:.80} is no name of an HTTP header"
        if not _goes_into_a_header(value):
            return f"headers: the value of {name!r:.80} {_NO_HEADER}"
    for text in stop:
        if not isinstance(text, str) or not text:
            return f"stop must hold texts that are not empty; got {text!r:.80}"
    return ""


def _goes_into_a_header(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _fault_of_objects(can_use_tool: object, client: object) -> str:
    if can_use_tool is not None and not callable(can_use_tool):
        return f"can_use_tool must be a function, or None; got {can_use_tool!r:.80}"
    if client is not None and not inspect.iscoroutinefunction(getattr(client, "send", None)):
        return f"http_client must be an httpx.AsyncClient, or None; got {client!r:.80}"
    return ""


def fault_of(options: "AgentOptions[object]") -> str:
    """What cannot work although it has the right type; empty if all can."""
    if not options.model.strip():
        return (
            "model is missing; pass the model's name as the endpoint knows it, or set "
            "AGENT_ACTORS_MODEL"
        )
    key = options.api_key if options.resolved is None else options.resolved.api_key
    if key and not _goes_into_a_header(key):
        return f"api_key {_NO_HEADER}"
    return _fault_of_url(options) or _fault_of_numbers(options) or _fault_of_names(options)


def _fault_of_url(options: "AgentOptions[object]") -> str:
    resolved = options.resolved
    if resolved is None:
        return ""
    url = resolved.base_url
    if not url:
        variables = " or ".join((*resolved.profile.base_url_env, "AGENT_ACTORS_BASE_URL"))
        return (
            f"base_url is missing; pass the endpoint's URL, set {variables}, or pass a provider: "
            "the name of a profile, such as 'ollama', or one of your own"
        )
    if _is_url(url):
        return ""
    # Neither a password nor a query is shown.
    shown = url.partition("?")[0].rpartition("@")[2]
    bare = "://" not in url
    whence = "base_url" if options.base_url else "base_url (from AGENT_ACTORS_BASE_URL)"
    return (
        f"{whence} must begin with http:// or https:// and name a host; got {shown!r}; "
        f"write {f'http://{shown}' if bare else 'http://localhost:1234/v1'!r}, for example"
    )


@functools.lru_cache(maxsize=64)
def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _fault_of_numbers(options: "AgentOptions[object]") -> str:
    for name, least in _LEAST.items():
        count: int | None = getattr(options, name)
        if count is not None and not count >= least:
            none = _NONE_MEANS.get(name, "")
            if least:
                return f"{name} must be at least {least}{none}; got {count}"
            return f"{name} must not be negative; got {count}"
    for name in TIMEOUTS:
        seconds: float = getattr(options, name)
        if not seconds > 0:
            return f"{name} must be above 0 seconds, or math.inf for none; got {seconds}"
    for name, (low, high) in _RANGES.items():
        value: float | None = getattr(options, name)
        if value is not None and not low <= value <= high:
            return (
                f"{name} must be from {low} to {high}, or None to send none; got {value}; if your "
                f"endpoint takes more, pass it as extra_body={{{name!r}: …}}"
            )
    return ""


_NONE_MEANS: Final = {
    "max_tokens": ", or None to send none",
    "max_turns": ", or None for any number",
    "resume_max_events": ", or math.inf for any number",
    "resume_max_bytes": ", or math.inf for any number",
}


def _fault_of_names(options: "AgentOptions[object]") -> str:
    for name, choices in _CHOICES.items():
        choice: str = getattr(options, name)
        if choice not in choices:
            listed = " or ".join(map(repr, choices))
            return f"{name} must be {listed}; got {choice!r:.80}"
    wanted = options.tool_choice
    if wanted not in (None, "auto", "none", "required") and wanted not in options.tools_by_name:
        known = ("auto", "none", "required", *options.tools_by_name)
        return f"tool_choice {wanted!r} is no tool of this agent; {nearest(wanted, known)}"
    return fault_of_limits(options.limits, options.session_limits, options.prices)


def fault_of_keywords(given: Iterable[str], known: Iterable[str]) -> str:
    """Which keyword is no field, and which field is meant; empty if all are fields."""
    names = tuple(known)
    for name in given:
        if name not in names:
            return f"there is no field {name!r}; {nearest(str(name), names)}"
    return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that is probably meant, and all that there are, if they can be taken in."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near and len(names) > _TAKEN_IN:
        return f"did you mean {near[0]!r}?"
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}Known: {', '.join(names)}"

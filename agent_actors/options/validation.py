"""Checks for `AgentOptions` that need several fields or the resolved endpoint.

Each function takes values instead of options and returns an error message, or "" if the values are
valid. Keys, and passwords in URLs, are never shown.
"""

import difflib
import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from agent_actors.profiles.resolve import ResolvedProvider

_MAX_LISTED_NAMES: Final = 16  # in an error; a longer list would hide the name that was meant
# Names that other packages use for these fields. They are listed because their spelling is not
# similar enough, or because they could mean several fields.
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: fields
        for names, fields in (
            (
                "timeout request_timeout read_timeout timeouts",
                (
                    "total_timeout",
                    "idle_timeout",
                    "first_token_timeout",
                    "connect_timeout",
                    "run_timeout",
                    "tool_timeout",
                ),
            ),
            ("stream_timeout inactivity_timeout", ("idle_timeout",)),
            ("max_output_tokens max_completion_tokens max_new_tokens", ("max_tokens",)),
            ("system instructions prompt system_message", ("system_prompt",)),
            ("retries num_retries retry", ("max_retries",)),
            ("max_steps max_rounds recursion_limit", ("max_iterations", "max_turns")),
            ("model_name model_id engine deployment", ("model",)),
            ("url api_base endpoint host openai_api_base", ("base_url",)),
            ("key token api_token openai_api_key", ("api_key",)),
            ("extra_headers default_headers", ("headers",)),
            ("stop_sequences", ("stop",)),
            ("functions", ("tools",)),
            ("sandbox backend", ("workspace",)),
            ("toolset preset", ("builtin_tools",)),
            ("response_format output_schema output_format result_type", ("output_type",)),
            (
                "allowed_tools disallowed_tools permission_mode mode policy tool_whitelist",
                ("permissions",),
            ),
            ("approver approval on_approval can_use", ("can_use_tool",)),
            ("max_budget max_budget_usd budget usage_limits", ("limits", "session_limits")),
            ("working_directory workdir work_dir root", ("cwd", "workspace")),
            ("name agent", ("agent_name",)),
            ("callbacks middleware", ("hooks",)),
            ("client", ("http_client", "provider")),
            ("max_history history_limit max_messages", ("resume_max_events",)),
        )
        for name in names.split()
    }
)
HEADER_RULE: Final = (
    "must be printable ASCII without line breaks; look for a stray newline or quotation mark"
)


def fits_header(text: str) -> bool:
    """Return whether an HTTP header can contain this text."""
    return text.isascii() and text.isprintable()


def find_model_error(model: str) -> str:
    """Return an error message if the model's name is missing or blank; otherwise empty."""
    if model.strip():
        return ""
    return "model is missing; pass the model's name at the endpoint, or set AGENT_ACTORS_MODEL"


def find_key_error(key: str | None) -> str:
    """Return an error message if the key cannot be sent in a header; otherwise empty."""
    return "" if not key or fits_header(key) else f"api_key {HEADER_RULE}"


def find_url_error(resolved: ResolvedProvider, *, passed: bool) -> str:
    """Return an error message if the endpoint's URL is missing or invalid; otherwise empty.

    Args:
        resolved: The endpoint.
        passed: True if the caller passed the URL, False if it came from the environment.
    """
    url = resolved.base_url
    if not url:
        variables = " or ".join((*resolved.profile.base_url_env, "AGENT_ACTORS_BASE_URL"))
        return (
            f"base_url is missing; pass the endpoint's URL, set {variables}, or pass a provider: "
            "the name of a profile, for example 'ollama', or a provider object"
        )
    if _is_url(url):
        return ""
    # Errors must show neither the password nor the query of a URL.
    shown = url.partition("?")[0].rpartition("@")[2]
    bare = "://" not in url
    source = "base_url" if passed else "base_url (from AGENT_ACTORS_BASE_URL)"
    return (
        f"{source} must begin with http:// or https:// and name a host; got {shown!r}; "
        f"write {f'http://{shown}' if bare else 'http://localhost:1234/v1'!r}, for example"
    )


@functools.lru_cache(maxsize=64)
def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def find_tool_choice_error(tool_choice: str | None, tools: Iterable[str]) -> str:
    """Return an error message if the tool choice is not one of the tools; otherwise empty.

    Args:
        tool_choice: The tool choice.
        tools: The names of the agent's tools.
    """
    if tool_choice is None:
        return ""
    known = ("auto", "none", "required", *tools)
    if tool_choice in known:
        return ""
    return f"tool_choice {tool_choice!r} is not a tool of this agent; {nearest(tool_choice, known)}"


def find_keyword_error(keywords: Iterable[str], fields: Iterable[str]) -> str:
    """Return an error message for a keyword that is not a field; empty if all are fields."""
    names = tuple(fields)
    for keyword in keywords:
        if keyword not in names:
            return f"unknown field {keyword!r}; {nearest(str(keyword), names)}"
    return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint: the names that were probably meant, and all known names if there are few."""
    names = sorted(known)
    near = other_names(name, names) or difflib.get_close_matches(name, names, n=1)
    *first, last = map(repr, near or [""])
    either = f"{', '.join(first)} or {last}" if first else last
    if near and len(names) > _MAX_LISTED_NAMES:
        return f"did you mean {either}?"
    meant = f"did you mean {either}? " if near else ""
    return f"{meant}Known: {', '.join(names)}"


def other_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known fields for which other packages use this name."""
    words = tuple(known)
    plain = name.strip().lower().replace("-", "_")
    return tuple(field for field in _OTHER_NAMES.get(plain, ()) if field in words)

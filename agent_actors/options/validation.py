"""Checks of `AgentOptions` that need the values of several fields, or the resolved endpoint.

Each function takes values, not options, and returns an error, or "" if there is none. Keys, and
passwords in URLs, are never shown.
"""

import difflib
import functools
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from agent_actors.profiles.resolve import ResolvedProvider

_MAX_LISTED_NAMES: Final = 16  # in an error; a longer list hides the name that was meant
HEADER_RULE: Final = (
    "must be printable ASCII without line breaks; look for a stray newline or quotation mark"
)


def fits_header(text: str) -> bool:
    """Return whether an HTTP header can contain this text."""
    return text.isascii() and text.isprintable()


def find_model_error(model: str) -> str:
    """Return an error if a request cannot name this model; otherwise empty."""
    if model.strip():
        return ""
    return "model is missing; pass the model's name at the endpoint, or set AGENT_ACTORS_MODEL"


def find_key_error(key: str | None) -> str:
    """Return an error if a header cannot contain this key; otherwise empty."""
    return "" if not key or fits_header(key) else f"api_key {HEADER_RULE}"


def find_url_error(resolved: ResolvedProvider, *, passed: bool) -> str:
    """Return an error if the endpoint's URL is missing or invalid; otherwise empty.

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
    # Errors show neither the password nor the query of a URL.
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
    """Return an error if the tool choice names no tool; otherwise empty.

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
    """Return an error for a keyword that is not a field; empty if all are fields."""
    names = tuple(fields)
    for keyword in keywords:
        if keyword not in names:
            return f"there is no field {keyword!r}; {nearest(str(keyword), names)}"
    return ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant, and all known names if they are few."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near and len(names) > _MAX_LISTED_NAMES:
        return f"did you mean {near[0]!r}?"
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}Known: {', '.join(names)}"

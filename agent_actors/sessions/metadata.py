"""The metadata that a run notes of its session, so that listings can describe the session. Pure.

Callers may add keys of their own. Keys of an endpoint (API keys) are never part of it.
"""

from collections.abc import Sequence

from agent_actors.domain.json import JsonValue
from agent_actors.domain.session import PARENT_CALL, PARENT_SESSION


def run_metadata(
    *,
    cwd: str,
    provider_name: str,
    model: str,
    allowed_tools: Sequence[str],
    agent_name: str | None,
    parent: tuple[str, str | None] | None,
) -> dict[str, JsonValue]:
    """Return what a run notes of its session.

    Args:
        cwd: The working directory of the run.
        provider_name: The profile of the endpoint, or the class of the provider.
        model: The model.
        allowed_tools: The names of the tools that the run may use.
        agent_name: The name of the agent; None: it has none.
        parent: For a nested run, the session and the tool call that started it; else None.
    """
    noted: dict[str, JsonValue] = {
        "cwd": cwd,
        "provider_name": provider_name,
        "model": model,
        # Settings come from the caller's code alone: no file is read for them.
        "setting_sources": [],
        "allowed_tools": list[JsonValue](allowed_tools),
        "agent_name": agent_name,
    }
    if parent is not None:
        noted[PARENT_SESSION], noted[PARENT_CALL] = parent
    return noted

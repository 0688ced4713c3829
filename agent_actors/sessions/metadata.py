"""The metadata that a run records, so that listings can describe its session. Pure.

Callers may add their own keys. An endpoint's API key is never part of the metadata.
"""

from collections.abc import Sequence

from agent_actors.domain.json import JsonValue
from agent_actors.domain.session import PARENT_CALL, PARENT_SESSION


def run_metadata(
    *,
    cwd: str,
    provider_name: str,
    model: str,
    setting_sources: Sequence[str],
    allowed_tools: Sequence[str],
    agent_name: str | None,
    parent: tuple[str, str | None] | None,
) -> dict[str, JsonValue]:
    """Return the metadata that a run records for its session.

    Args:
        cwd: The working directory of the run.
        provider_name: The name of the endpoint's profile, or of the provider's class.
        model: The name of the model.
        setting_sources: The groups of files that the agent may read.
        allowed_tools: The names of the tools offered to the model: those that the permission policy
            and the whitelist allow, and those that hooks registered.
        agent_name: The name of the agent; None if the agent has no name.
        parent: For a nested run, the session and the tool call that started it; otherwise None.
    """
    noted: dict[str, JsonValue] = {
        "cwd": cwd,
        "provider_name": provider_name,
        "model": model,
        "setting_sources": list[JsonValue](setting_sources),
        "allowed_tools": list[JsonValue](allowed_tools),
        "agent_name": agent_name,
    }
    if parent is not None:
        noted[PARENT_SESSION], noted[PARENT_CALL] = parent
    return noted

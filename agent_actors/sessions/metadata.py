"""What is noted of a session beside its records, so that a listing can tell what it is.

Pure. A caller's own keys stand beside these; no key of an endpoint's is ever among them.
"""

from agent_actors.domain.json import JsonValue
from agent_actors.domain.session import PARENT_CALL, PARENT_SESSION
from agent_actors.options.agent_options import AgentOptions
from agent_actors.run.spec import RunSpec


def metadata_of(spec: RunSpec) -> dict[str, JsonValue]:
    """What a run notes of its session; of a child run, whose child it is."""
    options, parent = spec.options, spec.node.parent
    noted: dict[str, JsonValue] = {
        "cwd": str(options.cwd),
        "provider_name": _provider_name(options),
        "model": options.model,
        # Settings come from the caller's code alone: no file is read for them.
        "setting_sources": [],
        "allowed_tools": _allowed_tools(spec),
        "agent_name": options.agent_name,
    }
    if parent is not None:
        noted[PARENT_SESSION] = parent.session_id
        noted[PARENT_CALL] = spec.parent_tool_use_id
    return noted


def _provider_name(options: AgentOptions) -> str:
    if options.resolved is not None:
        return options.resolved.profile.name
    return type(options.provider).__name__


def _allowed_tools(spec: RunSpec) -> list[JsonValue]:
    wanted = spec.tool_whitelist
    return [name for name in spec.options.tools_by_name if wanted is None or name in wanted]

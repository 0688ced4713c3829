"""The phases of a run in which hooks may take part, in the order in which they occur."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import attrs


class Phase(StrEnum):
    """A phase. Its value is its name in mappings, events and stop reasons."""

    SESSION_START = "session_start"
    USER_PROMPT_SUBMIT = "user_prompt_submit"
    BEFORE_AGENT = "before_agent"
    MODIFY_REQUEST = "modify_request"
    BEFORE_MODEL = "before_model"
    WRAP_MODEL_CALL = "wrap_model_call"
    AFTER_MODEL = "after_model"
    BEFORE_TOOL = "before_tool"
    WRAP_TOOL_CALL = "wrap_tool_call"
    AFTER_TOOL = "after_tool"
    ON_STOP = "on_stop"
    ON_COMPACT = "on_compact"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_STOP = "subagent_stop"
    AFTER_AGENT = "after_agent"
    SESSION_END = "session_end"


# The names of phases in other SDKs, accepted as aliases.
ALIASES: Final[Mapping[str, Phase]] = MappingProxyType(
    {
        "pre_tool_use": Phase.BEFORE_TOOL,
        "post_tool_use": Phase.AFTER_TOOL,
        "before_model_call": Phase.BEFORE_MODEL,
        "after_model_call": Phase.AFTER_MODEL,
        "stop": Phase.ON_STOP,
    }
)

HOOK_PRE_TOOL_USE: Final = "pre_tool_use"
HOOK_POST_TOOL_USE: Final = "post_tool_use"
HOOK_USER_PROMPT_SUBMIT: Final = "user_prompt_submit"


def phase_named(name: str) -> Phase | None:
    """Return the phase with this name or alias; None if there is none."""
    if name in ALIASES:
        return ALIASES[name]
    try:
        return Phase(name)
    except ValueError:
        return None


@attrs.frozen
class PhaseInfo:
    """The description of a phase. A table in the docs is generated from all of them.

    Attributes:
        when: When the phase occurs.
        may: The actions that a hook may take in the phase.
        matches: True if a matcher for tool names applies in the phase.
        wraps: True if a hook wraps the step and has to call it.
    """

    when: str
    may: str
    matches: bool = False
    wraps: bool = False


PHASES: Final[Mapping[Phase, PhaseInfo]] = MappingProxyType(
    {
        Phase.SESSION_START: PhaseInfo(
            "once, before the first run of a session in this runtime", "refuse"
        ),
        Phase.USER_PROMPT_SUBMIT: PhaseInfo("once per run", "rewrite the prompt, refuse"),
        Phase.BEFORE_AGENT: PhaseInfo(
            "once per run, after `user_prompt_submit`", "register tools, refuse"
        ),
        Phase.MODIFY_REQUEST: PhaseInfo("before each model call", "replace the request"),
        Phase.BEFORE_MODEL: PhaseInfo(
            "after `modify_request`",
            "rewrite the messages of this request if the agent allows it, refuse",
        ),
        Phase.WRAP_MODEL_CALL: PhaseInfo(
            "around the call, with its retries and fallbacks",
            "replace or repeat the call",
            wraps=True,
        ),
        Phase.AFTER_MODEL: PhaseInfo(
            "after each response, before it is recorded", "replace its text, stop the run"
        ),
        Phase.BEFORE_TOOL: PhaseInfo(
            "before each call of an existing tool with valid arguments",
            "rewrite its arguments, refuse, stop the run",
            matches=True,
        ),
        Phase.WRAP_TOOL_CALL: PhaseInfo(
            "around the handler, after the call is allowed",
            "replace or repeat the execution",
            matches=True,
            wraps=True,
        ),
        Phase.AFTER_TOOL: PhaseInfo(
            "after each call that was executed", "replace its result, stop the run", matches=True
        ),
        Phase.ON_STOP: PhaseInfo(
            "after the final response of the model", "refuse, so that the run continues"
        ),
        Phase.ON_COMPACT: PhaseInfo(
            "before the conversation is made shorter", "replace the summary, refuse"
        ),
        Phase.SUBAGENT_START: PhaseInfo("when a tool starts a run", "refuse"),
        Phase.SUBAGENT_STOP: PhaseInfo("when that run has ended", "inspect"),
        Phase.AFTER_AGENT: PhaseInfo(
            "once for each `before_agent`, even after an error or a cancellation", "inspect"
        ),
        Phase.SESSION_END: PhaseInfo("once, when the session leaves the runtime", "inspect"),
    }
)

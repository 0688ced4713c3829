"""What a run asks a person."""

import attrs

from agent_actors.domain.json import JsonObject, JsonValue


@attrs.frozen
class Question:
    """A question that a run waits with.

    Attributes:
        id: What it is answered by.
        session_id: The session.
        run_id: The run.
        prompt: The question, on one line.
        choices: What may be answered; empty: any text.
        tool_use_id: The call that waits.
        tool_name: Its tool.
        tool_input: Its arguments.
        reason: Why it is asked.
        asked_at: Wall clock, in seconds since the epoch.
        permission: True: whether the call may run; False: something that the call itself asks, as
            those of `AskUserQuestion` do.
    """

    id: str
    session_id: str
    run_id: str
    prompt: str
    choices: tuple[str, ...] = ()
    tool_use_id: str = ""
    tool_name: str = ""
    tool_input: JsonObject = attrs.field(factory=dict[str, JsonValue])
    reason: str = ""
    asked_at: float = 0.0
    permission: bool = True

"""What a hook says, and what that comes to."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from agent_actors.domain.json import JsonObject, JsonValue

# Messages in the dict form of OpenAI's chat completions.
MessageDicts: TypeAlias = Sequence[Mapping[str, object]]


@attrs.frozen
class HookDecision:
    """What a hook decided; None in its place means to proceed.

    Attributes:
        continue_: False: refuse. A refused tool call is told to the model with the reason, and the
            run goes on; anything else refused ends it with `blocked:<phase>`.
        modified_input: The tool's arguments from here on (`before_tool`).
        modified_prompt: What the user said, as it is sent and stored (`user_prompt_submit`).
        modified_messages: What is sent to the model this once (`before_model`); ignored, and told
            of, unless the agent has `allow_message_rewrite`.
        modified_output: The answer's text (`after_model`), or the tool's result (`after_tool`).
        reason: Why; shown to the model, in events and in errors.
        stop: True: end the run, with `blocked:<phase>`, wherever it stands.
    """

    continue_: bool = True
    modified_input: JsonObject | None = None
    modified_prompt: str | None = None
    modified_messages: MessageDicts | None = None
    modified_output: str | JsonObject | list[JsonValue] | None = None
    reason: str = ""
    stop: bool = False


# What a decision comes to, inside the ring.


@attrs.frozen
class Refusal:
    """What was under way is refused.

    Attributes:
        hook: Who refused it.
        reason: Why.
        stop: Whether the run ends.
    """

    hook: str
    reason: str
    stop: bool = False

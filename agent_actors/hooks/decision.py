"""What a hook says, and what that comes to.

A decision is checked where it is made, so that a mistake is told at the hook's own line: what can
be neither sent nor stored gets no further, and leaves the session as it was. What it holds shares
nothing with what the hook keeps.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from agent_actors.codec.json_values import clean_text, to_json_object
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.tools.output import to_output

# Messages in the dict form of OpenAI's chat completions.
MessageDicts: TypeAlias = Sequence[Mapping[str, object]]
_Output: TypeAlias = str | JsonObject | list[JsonValue]

# Hooks are anybody's code, which no type checker may have seen.
# pyright: reportUnnecessaryIsInstance=false


def _flag(value: bool) -> bool:
    # Of a text such as "no" nobody can tell whether it lets the step be taken.
    if not isinstance(value, bool):
        raise _error("continue_ and stop", "True or False", value)
    return value


def _reason(value: str) -> str:
    if not isinstance(value, str):
        raise _error("reason", "text", value)
    return clean_text(value)


def _prompt(value: str | None) -> str | None:
    if value is None:
        return None
    found: object = value
    if not isinstance(found, str) or not value.strip():
        raise _error("modified_prompt", "text that is not blank", value)
    return clean_text(value)


def _input(value: JsonObject | None) -> JsonObject | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _error("modified_input", "an object of JSON", value)
    try:
        return to_json_object(value)
    except TypeError as error:
        raise ConfigError(f"HookDecision: modified_input: {error}") from error


def _messages(value: MessageDicts | None) -> MessageDicts | None:
    if value is None:
        return None
    found: object = value
    whole = isinstance(found, list | tuple)
    if not whole or not all(isinstance(message, Mapping) for message in value):
        raise _error("modified_messages", "a list of messages as dicts", value)
    return tuple(dict(message) for message in value)


def _output(value: _Output | None) -> _Output | None:
    try:
        return None if value is None else to_output(value).content
    except TypeError as error:
        raise ConfigError(f"HookDecision: modified_output: {error}") from error


def _error(name: str, wanted: str, found: object) -> ConfigError:
    return ConfigError(f"HookDecision: {name} must be {wanted}; got {found!r:.80}")


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
        modified_output: The answer's text (`after_model`), or the tool's result (`after_tool`):
            whatever a tool may return.
        reason: Why; shown to the model, in events and in errors.
        stop: True: end the run, with `blocked:<phase>`, wherever it stands.

    Raises:
        ConfigError: A field of another type, a blank prompt, or what is no JSON.
    """

    continue_: bool = attrs.field(default=True, converter=_flag)
    modified_input: JsonObject | None = attrs.field(default=None, converter=_input)
    modified_prompt: str | None = attrs.field(default=None, converter=_prompt)
    modified_messages: MessageDicts | None = attrs.field(default=None, converter=_messages)
    modified_output: _Output | None = attrs.field(default=None, converter=_output)
    reason: str = attrs.field(default="", converter=_reason)
    stop: bool = attrs.field(default=False, converter=_flag)


# What a decision comes to, inside the ring.


@attrs.frozen
class Denial:
    """What was under way is refused.

    Attributes:
        hook: Who refused it.
        reason: Why.
        stop: Whether the run ends.
    """

    hook: str
    reason: str
    stop: bool = False

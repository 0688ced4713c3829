"""Hook decisions, and the result of evaluating them.

A decision is validated when it is created, so that an error points to the line in the hook. Values
that could be neither sent nor stored are rejected there and leave the session unchanged. A decision
shares no mutable value with the hook.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs

from agent_actors.codec.json_values import clean_text, to_json_object
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.tools.output import to_output

# Messages as dicts in the format of OpenAI's chat completions.
MessageDicts: TypeAlias = Sequence[Mapping[str, object]]
_Output: TypeAlias = str | JsonObject | list[JsonValue]

# Hooks are written by users, whose code may not be type-checked.
# pyright: reportUnnecessaryIsInstance=false


def _flag(value: bool) -> bool:
    # A string such as "no" would be ambiguous.
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
        raise _error("modified_input", "a JSON object", value)
    try:
        return to_json_object(value)
    except TypeError as error:
        raise ConfigError(f"HookDecision: modified_input: {error}") from error


def _messages(value: MessageDicts | None) -> MessageDicts | None:
    if value is None:
        return None
    found: object = value
    is_sequence = isinstance(found, list | tuple)
    if not is_sequence or not all(isinstance(message, Mapping) for message in value):
        raise _error("modified_messages", "a list of messages as dicts", value)
    return tuple(dict(message) for message in value)


def _output(value: _Output | None) -> _Output | None:
    try:
        return None if value is None else to_output(value).content
    except TypeError as error:
        raise ConfigError(f"HookDecision: modified_output: {error}") from error


def _error(name: str, expected: str, found: object) -> ConfigError:
    return ConfigError(f"HookDecision: {name} must be {expected}; got {found!r:.80}")


@attrs.frozen
class HookDecision:
    """A hook's decision. A hook that returns None lets the run proceed.

    Attributes:
        continue_: False to refuse the step. If a tool call is refused, the model receives the
            reason and the run continues. If a hook refuses to stop a completed run (`on_stop`), the
            run continues with the reason as the user's input, at most five times. If a compaction
            is refused, the run continues with the complete conversation. If any other step is
            refused, the run ends with `blocked:<phase>`.
        modified_input: New arguments of the tool (`before_tool`).
        modified_prompt: The new prompt, which is sent and stored (`user_prompt_submit`).
        modified_messages: The messages to send to the model in this request only (`before_model`).
            Without the agent's `allow_message_rewrite`, they are ignored and a notice is emitted.
        modified_output: The new text of the response (`after_model`), the new result of the tool
            (`after_tool`; any value that a tool may return), or the summary (`on_compact`).
        reason: The reason, which is shown to the model, in events and in errors.
        stop: True to end the run, in any phase, with `blocked:<phase>`.

    Raises:
        ConfigError: A field has the wrong type, the prompt is blank, or a value cannot be
            represented in JSON.
    """

    continue_: bool = attrs.field(default=True, converter=_flag)
    modified_input: JsonObject | None = attrs.field(default=None, converter=_input)
    modified_prompt: str | None = attrs.field(default=None, converter=_prompt)
    modified_messages: MessageDicts | None = attrs.field(default=None, converter=_messages)
    modified_output: _Output | None = attrs.field(default=None, converter=_output)
    reason: str = attrs.field(default="", converter=_reason)
    stop: bool = attrs.field(default=False, converter=_flag)


# The result of a decision within the chain of hooks.


@attrs.frozen
class Denial:
    """The refusal of a step.

    Attributes:
        hook: Name of the hook that refused the step.
        reason: The reason.
        stop: True if the run ends.
    """

    hook: str
    reason: str
    stop: bool = False

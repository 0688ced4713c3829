"""What one kind of endpoint wants, refuses and does in its own way, as plain values.

A `ChatDialect` comes from a provider profile, or from a caller who knows the endpoint. Whatever
can be told from the stream itself is no part of it: a mode stands here only where guessing would
one day guess wrong.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.errors import ConfigError

# How a model that writes its calls into the text marks them: `<tool_call>{…}</tool_call>`, or
# `<|channel|>commentary to=functions.NAME … <|message|>{…}`.
TextToolCalls: TypeAlias = Literal["", "tags", "harmony"]

# What is sent to get an answer that fits a schema.
StructuredOutput: TypeAlias = Literal["json_schema", "json_object", "tool"]

_TEXT_TOOL_CALLS: Final = ("", "tags", "harmony")
_STRUCTURED_OUTPUT: Final = ("json_schema", "json_object", "tool")


def _as_names(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset((names,) if isinstance(names, str) else names)


@attrs.frozen(kw_only=True, cache_hash=True)  # it is part of keys, several times a turn
class ChatDialect:
    """The ways of one kind of endpoint.

    Attributes:
        max_tokens_field: What the bound on an answer's tokens is called on the wire.
        refuses: Fields of the body that are not sent, by their names on the wire, such as
            `temperature`; a caller's `extra_body` is sent all the same. With `tools` the endpoint
            is asked for text only: no tool is offered, and earlier calls and results are told as
            text.
        include_usage: Whether to ask for token counts; a few endpoints refuse the question.
        echo_reasoning: The field in which thoughts are sent back, such as `reasoning_content`;
            empty: they are not. A few endpoints demand them between tool calls, others refuse them.
        cumulative: True if each chunk repeats all the text so far; without it this is recognised
            from long texts only.
        text_tool_calls: How calls stand in the text; empty: text is text, whatever it looks like.
        short_call_ids: True if call ids must be nine letters and digits (Mistral's template).
        structured_output: How an answer that fits a schema is asked for.
    """

    max_tokens_field: str = "max_tokens"
    refuses: frozenset[str] = attrs.field(default=frozenset[str](), converter=_as_names)
    include_usage: bool = True
    echo_reasoning: str = ""
    cumulative: bool = False
    text_tool_calls: TextToolCalls = ""
    short_call_ids: bool = False
    structured_output: StructuredOutput = "json_schema"

    def __attrs_post_init__(self) -> None:
        for name, value, known in (
            ("text_tool_calls", self.text_tool_calls, _TEXT_TOOL_CALLS),
            ("structured_output", self.structured_output, _STRUCTURED_OUTPUT),
        ):
            if value not in known:
                raise ConfigError(
                    f"ChatDialect: {name} must be one of {', '.join(map(repr, known))}; "
                    f"got {value!r}"
                )


# What an endpoint is taken for that nothing is known of.
PLAIN: Final = ChatDialect()

"""The requirements and peculiarities of one kind of endpoint, as plain values.

A `ChatDialect` comes from a provider profile, or from a caller who knows the endpoint. Behaviour
that can be recognised in the response stream does not need a field here. A field exists only if
such recognition can be wrong.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import attrs

from agent_actors.errors import ConfigError

# How a model marks tool calls that it writes into its text: `<tool_call>{…}</tool_call>`, or
# `<|channel|>commentary to=functions.NAME … <|message|>{…}`.
TextToolCalls: TypeAlias = Literal["", "tags", "harmony"]

# The request field that asks for a response that matches a schema.
StructuredOutput: TypeAlias = Literal["json_schema", "json_object", "tool"]

_TEXT_TOOL_CALLS: Final = ("", "tags", "harmony")
_STRUCTURED_OUTPUT: Final = ("json_schema", "json_object", "tool")


def _as_names(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset((names,) if isinstance(names, str) else names)


@attrs.frozen(kw_only=True, cache_hash=True)  # hashed several times per turn, as part of keys
class ChatDialect:
    """The dialect of chat completions that one kind of endpoint speaks.

    Attributes:
        max_tokens_field: The request field for the maximum number of tokens of a response.
        refuses: Request fields that are not sent, by their names on the wire, for example
            `temperature`. Fields in a caller's `extra_body` are still sent. If the set contains
            `tools`, the endpoint is used for text only: no tools are offered, and earlier calls and
            results are sent as text.
        include_usage: Whether to request token counts; a few endpoints refuse that request field.
        echo_reasoning: The message field in which thinking is sent back, for example
            `reasoning_content`; empty: thinking is not sent back. A few endpoints require the
            thinking between tool calls; others refuse it.
        cumulative: True if each chunk repeats all the text so far. If False, repeated text is
            recognised only in long texts.
        text_tool_calls: How tool calls are marked in the text; empty: text is never read as a call.
        short_call_ids: True if call ids must consist of nine letters and digits (Mistral's
            template).
        structured_output: How a response that matches a schema is requested.
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
                    f"ChatDialect: the field {name!r} must be one of "
                    f"{', '.join(map(repr, known))}; got {value!r}"
                )


# The dialect of an endpoint about which nothing is known.
PLAIN: Final = ChatDialect()

"""Model requests, complete responses, and the deltas of a streamed response.

Deltas (`ModelDelta`) do not depend on a provider: each provider translates its wire format into
deltas, and the deltas are then assembled into blocks. Vendor-specific values stay in
`providers/<name>/`.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import attrs
import msgspec

from agent_actors.domain.blocks import AssistantBlock
from agent_actors.domain.encoded_message_cache import EncodedMessageCache
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.messages import Messages
from agent_actors.domain.usage import Usage

# The reason why a response ended. `stop` and `tool_calls` are hints: only the blocks show whether
# there are calls. `length` means that the response was truncated at max_tokens. `refusal` means
# that the model refused, `content_filter` that the endpoint filtered the response. Logs from
# earlier versions and custom providers may use `refused` for either. `paused` means that the
# endpoint expects another request for the rest of the response, but none was sent. `unmarked` means
# that the body ended without a finish reason and without the end mark of its protocol, so the
# response may be incomplete. `unknown` means that the endpoint marked the end, but gave no known
# reason.
FinishReason: TypeAlias = Literal[
    "stop",
    "tool_calls",
    "length",
    "refusal",
    "content_filter",
    "refused",
    "paused",
    "unmarked",
    "unknown",
]

REFUSALS: Final[frozenset[FinishReason]] = frozenset({"refusal", "content_filter", "refused"})
"""Finish reasons after which none of the response's tool calls is run."""

REFUSED_CALL: Final = "the response was refused or filtered, so this call did not run"
"""The error of a call in a refused response."""

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str

_EMPTY: Final[Mapping[str, JsonValue]] = MappingProxyType({})
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@attrs.frozen
class ToolSpec:
    """The description of a tool that is offered to a model.

    Attributes:
        name: The name: up to 64 letters, digits, `_` and `-`.
        description: The purpose of the tool, and when to use it.
        input_schema: A JSON Schema of type `object`; None accepts any object.
    """

    name: str
    description: str
    input_schema: Mapping[str, JsonValue] | None = None


@attrs.frozen
class ModelSettings:
    """Sampling settings. Fields that are None are not sent.

    Attributes:
        model: The model's name at the endpoint.
        max_tokens: Maximum number of tokens of one response.
        temperature: Sampling temperature; 0 is sent, None is not.
        top_p: Threshold for nucleus sampling.
        stop: Stop sequences, at which the response ends.
        seed: Seed for endpoints that support reproducible sampling.
        presence_penalty: From -2 to 2.
        frequency_penalty: From -2 to 2.
        tool_choice: `auto`, `none`, `required` or the name of a tool.
        parallel_tool_calls: True if one response may contain several calls.
        extra_body: Additional fields of the request body, sent unchanged.
        lenient_tool_json: True to repair arguments that are almost JSON; repaired calls are marked.
            This setting is not sent, because it only affects how responses are parsed.
    """

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    extra_body: Mapping[str, JsonValue] = _EMPTY
    lenient_tool_json: bool = False


@attrs.frozen
class OutputSchema:
    """The JSON object that a response must contain. Providers choose how to request it.

    Attributes:
        name: The name: up to 64 letters, digits, `_` and `-`.
        schema: JSON Schema of the object.
        description: Description for the model; not sent if empty.
        strict_schema: The schema in the form that strict endpoints accept, which matches no
            additional values; None if there is no such form.
    """

    name: str
    schema: JsonObject
    description: str = ""
    strict_schema: JsonObject | None = None


@attrs.frozen
class ModelRequest:
    """One model call.

    Attributes:
        messages: The conversation, without the system prompt.
        settings: The sampling settings.
        system_prompt: Sent before everything else; not sent if empty.
        tools: The tools that the model may call.
        turn: The number of this model call within the session; generated call ids contain it.
        known_call_ids: Ids of the session's earlier tool calls; a new call with one of these ids
            gets another id.
        output: The object that the response must contain once the model calls no more tools; None
            if any text is accepted. The provider requests the object in the way that its endpoint
            supports, and the response is validated in any case.
        idempotency_key: A key that is the same for all attempts of one model call, so that an
            endpoint can detect a repeated request; not sent if empty.
        headers: Additional HTTP headers, for example a trace context; the headers that the provider
            was constructed with take precedence.
        memo: A cache of messages that were encoded on earlier turns; empty by default.
    """

    messages: Messages
    settings: ModelSettings
    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    turn: int = 1
    known_call_ids: AbstractSet[str] = frozenset()
    output: OutputSchema | None = None
    idempotency_key: str = ""
    headers: Mapping[str, str] = _NO_HEADERS
    memo: EncodedMessageCache = attrs.field(factory=EncodedMessageCache, eq=False, repr=False)


# These three classes are Structs, not attrs classes, because an instance is created for each token
# of each stream, and creating a frozen attrs instance takes five times as long.
class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A delta of the response's text.

    Attributes:
        text: The text; empty if only `extra` arrived.
        extra: Fields that the provider needs sent back with the block.
    """

    text: str
    extra: Mapping[str, JsonValue] = _EMPTY


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """A delta of the model's thinking.

    Attributes:
        text: The text.
        signature: The provider's signature, if it arrived with this delta; otherwise empty.
        extra: Fields that the provider needs sent back with the block.
    """

    text: str
    signature: str = ""
    extra: Mapping[str, JsonValue] = _EMPTY


class ToolCallDelta(msgspec.Struct, frozen=True, gc=False):
    """A fragment of a tool call, as the endpoint sent it.

    Attributes:
        index: The call's index in the response; None if the endpoint sent none.
        id: The call's id; empty if this fragment has none.
        name: The tool's name, or a part of it; empty if this fragment has none.
        arguments: A fragment of JSON text, a complete object, or None.
        extra: Fields that the provider needs sent back with the call.
        repaired: True if the arguments were not valid JSON and `arguments` is their most likely
            meaning.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str | JsonObject | None = None
    extra: Mapping[str, JsonValue] = _EMPTY
    repaired: bool = False


@attrs.frozen
class UsageDelta:
    """The token counts so far; later counts replace earlier ones.

    Attributes:
        usage: The counts.
        partial: True if the endpoint reported only the input tokens or only the output tokens. A
            count of 0 then means unknown.
    """

    usage: Usage
    partial: bool = False


@attrs.frozen
class StopDetails:
    """The endpoint's explanation of a response that was refused or filtered.

    Attributes:
        type: `refusal`, `content_filter` or the endpoint's own type.
        category: The endpoint's category, for example `cyber` or `violence`; empty if it sent none.
        explanation: A human-readable explanation; empty if the endpoint sent none.
        data: The endpoint's object, unchanged; empty if there was none.
    """

    type: str
    category: str = ""
    explanation: str = ""
    # Not `JsonValue`: msgspec decodes this class directly and does not support recursive types.
    data: Mapping[str, object] = attrs.field(factory=dict[str, object])


@attrs.frozen
class FinishDelta:
    """The finish reason that the endpoint sent: only a hint, because endpoints send wrong ones."""

    reason: FinishReason


@attrs.frozen
class NoticeDelta:
    """An irregularity in the stream, reported for people; not part of the response."""

    text: str


@attrs.frozen
class ProgressDelta:
    """Progress that readers do not see, for example of a tool that the provider runs.

    It shows that the stream is not idle. It is not part of the response.
    """


# Deltas of a response, and notices about its stream.
AnswerDelta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | UsageDelta | FinishDelta
ModelDelta: TypeAlias = AnswerDelta | NoticeDelta | ProgressDelta


@attrs.frozen
class ModelCompleted:
    """A complete response from a model.

    Attributes:
        blocks: The content; calls that cannot be executed are `ToolUseError` blocks.
        finish_reason: The reason why the response ended.
        usage: Token counts; `estimated` is True if the endpoint sent none.
        model: The model's name as the endpoint sent it; empty if it sent none.
        response_id: The endpoint's id of the response; empty if it sent none.
        done: True if the model itself ends the run, even if it called tools.
        output: The JSON text of the object that the request's `output` describes, if the wire
            format separates it from other text; None if it is part of the text.
        stop_details: The endpoint's explanation of a refused or filtered response; None if it sent
            none.
        damaged_lines: The number of data lines that could not be read completely. Their content may
            be missing from the text. Calls that may be affected are `ToolUseError` blocks.
    """

    blocks: tuple[AssistantBlock, ...]
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = ""
    response_id: str = ""
    done: bool = False
    output: str | None = None
    stop_details: StopDetails | None = None
    damaged_lines: int = 0

    @property
    def refused(self) -> bool:
        """True if the response was refused or filtered; none of its tool calls is run."""
        return self.finish_reason in REFUSALS

    @property
    def text(self) -> str:
        """The joined text blocks."""
        return "".join(block.text for block in self.blocks if block.type == "text")

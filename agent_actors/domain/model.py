"""What is asked of a model, and what comes back: whole, and piece by piece.

Pieces (`ModelDelta`) are neutral: providers translate their wire into them, assembly makes blocks
of them, readers see them. What is vendor-shaped rises no higher than `providers/<name>/`.
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

# How a response ended. `stop` and `tool_calls` are hints of the endpoint; whether there are calls
# is known from the blocks alone. `length` means that the response was cut at max_tokens. `refusal`
# means that the model refused, `content_filter` that the endpoint filtered the response. `refused`
# stands for either in logs of earlier versions, and providers of a caller's own may return it.
FinishReason: TypeAlias = Literal[
    "stop", "tool_calls", "length", "refusal", "content_filter", "refused", "unknown"
]

REFUSALS: Final[frozenset[FinishReason]] = frozenset({"refusal", "content_filter", "refused"})
"""Reasons after which no call of the response runs."""

REFUSED_CALL: Final = "the response was refused or filtered, so this call did not run"
"""The error of a call in a refused response."""

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | str

_EMPTY: Final[Mapping[str, JsonValue]] = MappingProxyType({})


@attrs.frozen
class ToolSpec:
    """A tool as it is offered to a model.

    Attributes:
        name: Letters, digits, `_` and `-`, 64 at most.
        description: What it does and when to use it.
        input_schema: A JSON Schema of type `object`; None: any object is taken.
    """

    name: str
    description: str
    input_schema: Mapping[str, JsonValue] | None = None


@attrs.frozen
class ModelSettings:
    """How to sample; None anywhere means that the field is not sent.

    Attributes:
        model: The model's name, as the endpoint knows it.
        max_tokens: The most tokens of one answer.
        temperature: 0 is sent; None is not.
        top_p: Nucleus sampling.
        stop: Texts at which the answer ends.
        seed: For endpoints that sample repeatably.
        presence_penalty: Between -2 and 2.
        frequency_penalty: Between -2 and 2.
        tool_choice: `auto`, `none`, `required` or the name of a tool.
        parallel_tool_calls: Whether one answer may hold several calls.
        extra_body: Further fields of the request's body, sent as they are.
        lenient_tool_json: Whether a call's arguments that are nearly JSON are read as what they
            mean, and the call is marked; of the reading, not of the sampling, and not sent.
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
    """What an answer has to be: one JSON object. How that is brought about, a provider knows.

    Attributes:
        name: Letters, digits, `_` and `-`; 64 at most.
        schema: The object's JSON Schema.
        description: What it is, for the model; empty: nothing is said of it.
        strict_schema: The schema in the form that strict endpoints take, and that allows nothing
            more; None: it has none.
    """

    name: str
    schema: JsonObject
    description: str = ""
    strict_schema: JsonObject | None = None


@attrs.frozen
class ModelRequest:
    """One call of a model.

    Attributes:
        messages: The conversation, without the system prompt.
        settings: How to sample.
        system_prompt: Sent before everything else; empty: none is sent.
        tools: The tools on offer.
        turn: The number of this model call in its session's life; made-up call ids carry it.
        known_call_ids: The ids of earlier calls of the session; a colliding new id is rewritten.
        output: What the answer has to be, once the model calls no more tools; None: any text. A
            provider asks for it as its endpoint can; what comes is checked all the same.
        idempotency_key: The same for all tries of one model call, so that an endpoint can tell that
            it answered already; empty: none is sent.
        memo: What was made of the messages on earlier turns; a new one holds nothing.
    """

    messages: Messages
    settings: ModelSettings
    system_prompt: str = ""
    tools: tuple[ToolSpec, ...] = ()
    turn: int = 1
    known_call_ids: AbstractSet[str] = frozenset()
    output: OutputSchema | None = None
    idempotency_key: str = ""
    memo: EncodedMessageCache = attrs.field(factory=EncodedMessageCache, eq=False, repr=False)


# These three are Structs and no attrs classes: one is made for each token of each stream, and a
# frozen attrs instance costs five times as much to make.
class TextDelta(msgspec.Struct, frozen=True):
    """More text of the answer.

    Attributes:
        text: The text; empty if only `extra` came.
        extra: What the provider wants echoed back with the block.
    """

    text: str
    extra: Mapping[str, JsonValue] = _EMPTY


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More of the model's chain of thought.

    Attributes:
        text: Its text.
        signature: The provider's seal, if it came with this piece.
        extra: What the provider wants echoed back with the block.
    """

    text: str
    signature: str = ""
    extra: Mapping[str, JsonValue] = _EMPTY


class ToolCallDelta(msgspec.Struct, frozen=True):
    """A fragment of a tool call, as loose as endpoints send it.

    Attributes:
        index: The slot that the endpoint names; None if it names none.
        id: The call's id; empty if this fragment has none.
        name: The tool's name or a part of it; empty if this fragment has none.
        arguments: A piece of JSON text, or a whole object, or None.
        extra: What the provider wants echoed back with the call.
        repaired: True if what came was no JSON, and `arguments` is what it most likely means.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str | JsonObject | None = None
    extra: Mapping[str, JsonValue] = _EMPTY
    repaired: bool = False


@attrs.frozen
class UsageDelta:
    """Token counts so far; a later one replaces an earlier one.

    Attributes:
        usage: The counts.
        partial: True if the endpoint told only the input, or only the output: a count of 0 is then
            one that is not known.
    """

    usage: Usage
    partial: bool = False


@attrs.frozen
class StopDetails:
    """The endpoint's own words about a response that was refused or filtered.

    Attributes:
        type: `refusal` or `content_filter`, or the endpoint's own type.
        category: The endpoint's category, such as `cyber` or `violence`; empty if it sent none.
        explanation: The explanation for a person; empty if the endpoint sent none.
        data: The endpoint's object, as it came; empty if there was none.
    """

    type: str
    category: str = ""
    explanation: str = ""
    # Not `JsonValue`: msgspec reads this class itself, and knows no type that contains itself.
    data: Mapping[str, object] = attrs.field(factory=dict[str, object])


@attrs.frozen
class FinishDelta:
    """The endpoint says how the answer ends; a hint, since endpoints err here."""

    reason: FinishReason


@attrs.frozen
class NoticeDelta:
    """Something odd in the stream that a person may want to know; no part of the answer."""

    text: str


@attrs.frozen
class ProgressDelta:
    """The answer goes on with what no reader is shown, such as a tool that the provider runs.

    It keeps the stream from counting as silent, and is no part of the answer.
    """


# What an answer is made of, and with it what is said about its stream.
AnswerDelta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | UsageDelta | FinishDelta
ModelDelta: TypeAlias = AnswerDelta | NoticeDelta | ProgressDelta


@attrs.frozen
class ModelCompleted:
    """One whole answer of a model.

    Attributes:
        blocks: Its parts; calls that cannot be carried out stand as `ToolUseError`.
        finish_reason: How it ended.
        usage: Tokens; `estimated` where the endpoint gave none.
        model: The model's name as the endpoint gave it; empty if it gave none.
        response_id: The endpoint's id of the answer; empty if it gave none.
        done: True if the model itself ends the run, even though it called tools.
        output: The JSON text of what the request's `output` asks for, where the wire tells it apart
            from other text; None: the text is all there is.
        stop_details: The endpoint's own words about a refused or filtered response; None if it
            sent none.
        damaged_lines: How many data lines could not be read completely. The text may lack their
            content; calls that they may have belonged to are `ToolUseError`s.
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
        """True if the response was refused or filtered: none of its calls runs."""
        return self.finish_reason in REFUSALS

    @property
    def text(self) -> str:
        """The answer's text blocks, joined."""
        return "".join(block.text for block in self.blocks if block.type == "text")

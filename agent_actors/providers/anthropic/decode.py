"""Decode the events of a message into the blocks of a response.

This module interprets Anthropic's events and common deviations from them, one data line at a time.
`block_list` assigns deltas to blocks. The decoder uses everything that it can read, even from an
invalid field. As the protocol requires, it ignores an event of unknown type, unless the event looks
like a part of a block. It skips a line that is not JSON, and leaves out a field of the wrong type.
Such damage is counted and reported. Because a part of the response is lost, calls that were open at
that time are not executed. If a line is damaged and no finish reason arrives, no call of the
response is executed, because the line may have reported that the response was refused. Errors that
the endpoint reports are raised.

A message begins once. If the same beginning is repeated, the repetition is ignored. If a different
message begins after the first block, an error is raised: a gateway that loses its connection can
splice two responses together, and endpoints always refuse a history that contains the signatures of
both.

Token counts are totals so far and never decrease. The higher of two counts is used, because
endpoints send zeros for unknown counts. Anthropic counts cached input tokens separately from the
other input tokens. A response with several sampling steps lists them (`iterations`). The totals
leave out some of these steps, for example a compaction, although all of them are billed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from agent_actors.codec.json_text import NotJsonError
from agent_actors.domain.blocks import (
    AssistantBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.model import (
    REFUSALS,
    REFUSED_CALL,
    FinishReason,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    StopDetails,
    UsageDelta,
)
from agent_actors.domain.usage import Usage, estimate_tokens
from agent_actors.errors import ProviderProtocolError
from agent_actors.protocol.response.assembler import DAMAGED_CALL, estimate_prompt_tokens
from agent_actors.protocol.response.text import mend_object, mend_surrogates
from agent_actors.protocol.sse import Fault
from agent_actors.providers.anthropic.block_list import BlockTable
from agent_actors.providers.anthropic.stream_error import in_band
from agent_actors.providers.anthropic.wire import Delta, Event, Message, read_events
from agent_actors.providers.damage import (
    NO_DATA,
    NOT_A_FIELD,
    NOT_JSON,
    DamagedLines,
    damage_of,
    unchanged,
)
from agent_actors.providers.finish_words import (
    NO_REASON_WORDS,
    REFUSAL_WORDS,
    failure_of,
    plain_word,
)
from agent_actors.providers.foreign_body import SEARCHED_LINES, api_of_text
from agent_actors.providers.token_counts import count_in
from agent_actors.providers.wire_json import WireObject, text_in

_FINISH: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "paused",
    "compaction": "paused",
    # Reasons from other protocols, sent by gateways that translate only partially.
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    **REFUSAL_WORDS,
}
_PAUSES: Final = frozenset({"pause_turn", "compaction"})
"""Reasons after which the endpoint expects a new request with the response so far. After
`compaction`, the response so far is only a summary of the conversation.
"""
_WEIGHT: Final[Mapping[FinishReason, int]] = {
    "unmarked": 0,
    "unknown": 1,
    "stop": 2,
    "tool_calls": 2,
    "paused": 2,
    "length": 3,
    "refused": 4,
    "refusal": 4,
    "content_filter": 4,
}
"""The priority of finish reasons. Endpoints repeat and contradict finish reasons; a reason with a
lower priority does not replace one with a higher priority.
"""

_CUT: Final[Mapping[FinishReason, str]] = {
    "length": "the response was cut off at its token limit",
}

_INPUT: Final = ("input_tokens", "prompt_tokens")
_OUTPUT: Final = ("output_tokens", "completion_tokens")
"""The names of the input and output token counts."""

_SHOWN_LINE: Final = 200
"""The number of characters of a skipped line that the error for a body without a response shows."""

_EVENTS: Final = frozenset(
    {
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_start",
        "message_delta",
        "message",
    }
)
"""The names of events that have no meaning without data."""

_NOTHING: Final[Sequence[ModelDelta]] = ()


class MessageDecoder:
    """Decodes the data lines of one response.

    Args:
        request: The request.
        endpoint: The name of the endpoint in error messages.
        redact: Removes credentials from notices.

    Attributes:
        model: The name of the model from the endpoint; empty until it arrives.
        response_id: The endpoint's id for the response; empty until it arrives.
        ended: True once the endpoint has reported the end of the message.
        paused: True if the endpoint expects another request, to continue this response.
        answered: True once any event of a message has arrived.
        damaged: The lines that could not be read completely.
        skipped: The number of lines that were damaged or of an unknown type.
        first_skipped: The beginning of the first of these lines; empty if there is none.
        foreign: The name of another API whose events the first lines contain; empty if unknown.
    """

    __slots__ = (
        "_blocks",
        "_counted",
        "_endpoint",
        "_finish",
        "_opening",
        "_request",
        "_stop_details",
        "_usage",
        "answered",
        "damaged",
        "ended",
        "first_skipped",
        "foreign",
        "model",
        "paused",
        "response_id",
        "skipped",
    )

    def __init__(
        self,
        request: ModelRequest,
        *,
        endpoint: str,
        redact: Callable[[str], str] = unchanged,
    ) -> None:
        self._request = request
        self._endpoint = endpoint
        self._blocks = BlockTable(request)
        self._finish: FinishReason | None = None
        self._usage = Usage()
        # True once output tokens were counted. At the beginning of a message, only the prompt's
        # count is reliable; the output count is a guess by the endpoint.
        self._counted = False
        self._stop_details: WireObject = {}
        self._opening: list[WireObject] = []
        self.model: str = ""
        self.response_id: str = ""
        self.ended: bool = False
        self.paused: bool = False
        self.answered: bool = False
        self.damaged: DamagedLines = DamagedLines(redact)
        self.skipped: int = 0
        self.first_skipped: str = ""
        self.foreign: str = ""

    @property
    def finish_hint(self) -> FinishReason | None:
        """The finish reason so far; None until one arrives."""
        return self._finish

    @property
    def size(self) -> int:
        """The number of characters so far; the cost grows with the number of deltas."""
        return self._blocks.size()

    def decode(self, data: str | bytes, name: str = "", fault: Fault = "") -> Sequence[ModelDelta]:
        """Decode one data line; return the deltas to show.

        Args:
            data: The line.
            name: The name of the event in the stream, for data without a type.
            fault: The fault that the decoder of the event stream found.

        Raises:
            ProviderInBandError: The line reports an error.
            ProviderProtocolError: Another response begins in the middle of this one.
        """
        if fault == "line":
            return self._damage(NOT_A_FIELD, data)
        if fault == "empty":
            return self._damage(NO_DATA, name) if name in _EVENTS else _NOTHING
        lost: list[str] = []
        try:
            events = read_events(data, lost)
        except NotJsonError:
            return self._damage(NOT_JSON, data)
        shown = [delta for event in events for delta in self._take(event, name, data, lost)]
        if lost or fault:
            shown += self._damage(damage_of(lost, fault), data)
        return shown

    def flush(self) -> Sequence[ModelDelta]:
        """Return the remaining deltas to show after the last line."""
        shown: list[ModelDelta] = []
        if not self._blocks:
            shown += self._take_blocks(self._opening)
        return [*shown, *self._blocks.flush()]

    def finish(self) -> ModelCompleted:
        """Return the complete response. Call `flush` first."""
        cut = _CUT.get(self._finish or "unknown", "")
        void = REFUSED_CALL if self._finish in REFUSALS else ""
        if not void and self.damaged.count and self._finish is None:
            void = DAMAGED_CALL
        blocks = self._blocks.blocks(cut, void=void)
        return ModelCompleted(
            blocks=tuple(blocks),
            finish_reason=_reason(self._finish or "unknown", blocks),
            usage=self._whole_usage(blocks),
            model=self.model,
            response_id=self.response_id,
            stop_details=self._details(),
            damaged_lines=self.damaged.count,
        )

    def _details(self) -> StopDetails | None:
        """Return the endpoint's explanation of a refused or filtered response."""
        if self._finish is None or self._finish not in REFUSALS:
            return None
        data = mend_object(cast(JsonObject, self._stop_details))
        return StopDetails(
            mend_surrogates(text_in(self._stop_details, "type")) or self._finish,
            mend_surrogates(text_in(self._stop_details, "category")),
            mend_surrogates(text_in(self._stop_details, "explanation")),
            dict(data),
        )

    def _take(
        self, event: Event, name: str, data: str | bytes, lost: list[str]
    ) -> Sequence[ModelDelta]:
        kind = event.type or name
        if kind == "content_block_delta":
            self.answered = True
            return self._take_delta(event.index, event.delta)
        if event.error or kind == "error":
            raise in_band(event.error or "", endpoint=self._endpoint)
        if kind == "ping":
            # If the last event was lost, only pings follow a finish reason.
            self.ended = self.ended or self._finish is not None
            return _NOTHING
        shown = self._take_rare(kind, event)
        if shown is None:
            if event.delta is not None or event.content_block:  # a part of a block
                lost.append("type")
            else:
                self._skip(data)
            return _NOTHING
        self.answered = True
        return shown

    def _take_rare(self, kind: str, event: Event) -> Sequence[ModelDelta] | None:
        """Decode an event of a rare type; return None if the type is unknown."""
        if kind == "content_block_start":
            return self._blocks.begin(event.index, event.content_block or {"type": "text"})
        if kind == "content_block_stop":
            return self._blocks.end(event.index)
        if kind == "message_start":
            self._begin(event.message or Message())
            return _NOTHING
        if kind == "message_delta":
            if event.delta is not None:
                self._take_reason(event.delta.stop_reason, event.delta.stop_details)
            return self._take_usage(event.usage)
        if kind == "message_stop":
            self.ended = True
            return _NOTHING
        if kind == "message" and event.message is not None:
            return self._take_whole(event.message)
        return None

    def _begin(self, message: Message) -> None:
        repeated = not message.id or message.id == self.response_id
        if self._blocks and not repeated:
            raise ProviderProtocolError(
                f"another response ({message.id}) began in the middle of this one "
                f"({self.response_id or 'without an id'}): a gateway joined two streams",
                endpoint=self._endpoint,
            )
        self.model = message.model or self.model
        self.response_id = message.id or self.response_id
        self._opening = message.content or self._opening
        self._usage = _higher(self._usage, message.usage)

    def _take_whole(self, message: Message) -> Sequence[ModelDelta]:
        self._begin(message)
        shown = self._take_blocks(message.content or [])
        self._take_reason(message.stop_reason, message.stop_details)
        self.ended = True
        return [*shown, *self._take_usage(message.usage)]

    def _take_blocks(self, blocks: Sequence[WireObject]) -> list[ModelDelta]:
        shown: list[ModelDelta] = []
        for index, block in enumerate(blocks):
            shown += self._blocks.begin(index, block)
            shown += self._blocks.end(index)
        return shown

    def _take_delta(self, index: int | None, delta: Delta | None) -> Sequence[ModelDelta]:
        if delta is None:
            return _NOTHING
        if delta.type is None:
            delta.type = _type_of(delta)
            if delta.type is None:
                return _NOTHING
        return self._blocks.add(index, delta)

    def _take_reason(self, word: str | None, details: WireObject | None) -> None:
        self._stop_details = details or self._stop_details
        word = plain_word(word or "")
        if word in NO_REASON_WORDS:
            return
        failure = failure_of(word, endpoint=self._endpoint)
        if failure is not None:
            raise failure
        self.paused = word in _PAUSES
        reason: FinishReason = _FINISH.get(word, "unknown")
        if self._finish is None or _WEIGHT[reason] >= _WEIGHT[self._finish]:
            self._finish = reason

    def _take_usage(self, raw: WireObject | None) -> Sequence[ModelDelta]:
        usage = _higher(self._usage, raw)
        self._usage = usage
        if not raw or not (usage.input_tokens or usage.output_tokens):
            return _NOTHING
        self._counted = self._counted or _billed(raw, *_OUTPUT) > 0
        return (UsageDelta(usage),)

    def _whole_usage(self, blocks: Sequence[AssistantBlock]) -> Usage:
        if self._counted:
            return self._usage
        thinking = sum(len(b.thinking) for b in blocks if isinstance(b, ThinkingBlock))
        text = sum(len(b.text) for b in blocks if isinstance(b, TextBlock))
        characters = thinking + text + self._blocks.arguments_size()
        return Usage(
            input_tokens=self._usage.input_tokens or estimate_prompt_tokens(self._request),
            output_tokens=max(self._usage.output_tokens, estimate_tokens(characters)),
            cache_read_tokens=self._usage.cache_read_tokens,
            cache_creation_tokens=self._usage.cache_creation_tokens,
            reasoning_tokens=estimate_tokens(thinking),
            estimated=True,
        )

    def _damage(self, what: str, data: str | bytes) -> Sequence[ModelDelta]:
        """Report a line that could not be read completely; a part of the response may be lost."""
        self._blocks.damage()
        return self.damaged.add(what, self._skip(data))

    def _skip(self, data: str | bytes) -> str:
        """Count a line that is skipped; return the line."""
        line = data if isinstance(data, str) else data.decode("utf-8", "replace")
        self.skipped += 1
        self.first_skipped = self.first_skipped or line[:_SHOWN_LINE]
        if not self.answered and self.skipped <= SEARCHED_LINES:
            self.foreign = self.foreign or api_of_text(line)
        return line


def _type_of(delta: Delta) -> str | None:
    """Return the type of a delta that does not specify one, derived from its fields."""
    if delta.text is not None:
        return "text_delta"
    if delta.partial_json is not None:
        return "input_json_delta"
    if delta.thinking is not None:
        return "thinking_delta"
    return None if delta.signature is None else "signature_delta"


def _reason(reason: FinishReason, blocks: Sequence[AssistantBlock]) -> FinishReason:
    calls = any(isinstance(block, ToolUseBlock | ToolUseError) for block in blocks)
    # If client-side tool calls are open, a paused endpoint waits for their results.
    if reason in {"stop", "paused"} and calls:
        return "tool_calls"
    if reason == "tool_calls" and not calls:
        return "stop"
    return reason


def _billed(raw: WireObject, *names: str) -> int:
    """Return the sum over all sampling steps, or the total if that is higher."""
    steps = raw.get("iterations")
    found = cast("list[object]", steps) if isinstance(steps, list) else []
    each = (count_in(cast(WireObject, item), *names) for item in found if isinstance(item, dict))
    return max(count_in(raw, *names), sum(each))


def _higher(so_far: Usage, raw: WireObject | None) -> Usage:
    """Return the counts so far, raised to the new counts where those are higher."""
    if not raw:
        return so_far
    read = max(_billed(raw, "cache_read_input_tokens"), so_far.cache_read_tokens)
    created = max(_billed(raw, "cache_creation_input_tokens"), so_far.cache_creation_tokens)
    # Only uncached input is compared here, because another event may report the cached tokens.
    fresh = so_far.input_tokens - so_far.cache_read_tokens - so_far.cache_creation_tokens
    fresh = max(fresh, _billed(raw, *_INPUT))
    details = raw.get("output_tokens_details")
    thinking = (
        count_in(cast(WireObject, details), "thinking_tokens") if isinstance(details, dict) else 0
    )
    return Usage(
        input_tokens=fresh + read + created,
        output_tokens=max(so_far.output_tokens, _billed(raw, *_OUTPUT)),
        cache_read_tokens=read,
        cache_creation_tokens=created,
        reasoning_tokens=max(so_far.reasoning_tokens, thinking),
    )

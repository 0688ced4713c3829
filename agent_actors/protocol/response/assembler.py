"""Assemble the blocks of a model's response from its deltas.

The `Assembler` owns one response from its first delta to the `ModelCompleted`. It does not depend
on a vendor: `providers/<name>/` translates the vendor's format and feeds neutral `ModelDelta`s.
`text` separates new text from repeated text, `tool_call_fragments` assigns fragments to calls,
`arguments` parses argument text, and `call_ids` creates ids.

Blocks are in the order of their first deltas. Text extends the previous block if that block has the
same kind. Thinking or a new call begins a new block. The position of a call is that of its first
fragment.

A call becomes a `ToolUseBlock` only if it has a name and complete arguments. The finish reason of
the endpoint is only a hint. If the response was cut off (`length`, or a stream that ended without a
finish reason), the last call is considered incomplete unless its arguments prove that it is
complete. If the last call has no arguments, or an empty object that may be the start of the
arguments, it becomes a `ToolUseError`. An incomplete call is never executed.

If a part of the response was lost (`damage`), a call that began before the loss is trusted only if
it was complete by then: the endpoint had sent its finish reason, or the arguments were a JSON
object and another call had begun. A call that began after the loss is trusted if its arguments are
provably complete. Without any finish reason, no call is trusted, because the lost line may have
reported that the response was refused. Calls of a refused or filtered response are never executed.

If the text may contain calls, `text_calls` finds them in the text that `text` passes on.

The cost of feeding is linear in the size of the input: chunks are kept in lists and joined once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from agent_actors.domain.blocks import (
    AssistantBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonValue
from agent_actors.domain.messages import Message
from agent_actors.domain.model import (
    REFUSALS,
    REFUSED_CALL,
    FinishReason,
    ModelCompleted,
    ModelDelta,
    ModelRequest,
    NoticeDelta,
    ProgressDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage, estimate_tokens
from agent_actors.protocol.response.arguments import (
    BadArguments,
    GoodArguments,
    ParsedArguments,
    dump_object,
    parse_arguments,
)
from agent_actors.protocol.response.call_ids import CallIds
from agent_actors.protocol.response.inline_tool_calls import Found, TextCalls
from agent_actors.protocol.response.text import TextFlow, mend_object, mend_surrogates
from agent_actors.protocol.response.tool_call_fragments import Slot, SlotTable

DAMAGED_CALL: Final = "a part of the response was lost or damaged, so this call may be incomplete"
"""The error of a call that was incomplete when a part of the response was lost."""

_NO_FIELDS: Final[Mapping[str, JsonValue]] = {}
_NOTHING: Final[Sequence[ModelDelta]] = ()
# The text is held back and not shown yet, but the stream is making progress.
_PROGRESS: Final[Sequence[ModelDelta]] = (ProgressDelta(),)

_WEIGHT: Final[dict[FinishReason | None, int]] = {
    None: 0,
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
"""The priority of finish reasons. Endpoints repeat and contradict finish reasons, so a reason is
replaced only by one of the same or a higher priority.
"""


class _Prose:
    """A text or thinking block that is being assembled."""

    __slots__ = ("damaged", "extra", "pieces", "signature", "thinking")

    def __init__(self, *, thinking: bool) -> None:
        self.thinking = thinking
        self.pieces: list[str] = []
        # True if a part of the block may be lost.
        self.damaged = False
        self.signature = ""
        self.extra: Mapping[str, JsonValue] = _NO_FIELDS

    @property
    def size(self) -> int:
        """The number of characters so far."""
        return sum(map(len, self.pieces)) + len(self.signature)

    def add_fields(self, extra: Mapping[str, JsonValue]) -> None:
        """Add extra fields; later fields replace earlier fields of the same name."""
        self.extra = {**self.extra, **extra}

    def shown(self, text: str) -> Sequence[ModelDelta]:
        """Append text that is shown now, and return the deltas to show."""
        if not text:
            return _NOTHING
        self.pieces.append(text)
        return (ThinkingDelta(text) if self.thinking else TextDelta(text),)

    def block(self) -> AssistantBlock | None:
        """Return the finished block; None if it is empty."""
        text = "".join(self.pieces)
        if self.thinking:
            if not (text or self.signature or self.extra):
                return None
            # A signature covers the complete thinking text. If the text differs, endpoints always
            # refuse the signature.
            seal = "" if self.damaged else mend_surrogates(self.signature)
            return ThinkingBlock(text, seal, extra=mend_object(self.extra))
        return TextBlock(text, extra=mend_object(self.extra)) if text else None


class _WatchedFlow(TextFlow):
    """A text flow that may contain calls: all of its text must go through the search for calls."""

    __slots__ = ()

    @property
    def is_plain(self) -> bool:
        return False

    @property
    def holds(self) -> bool:
        # Also true for text that may be the start of a marker; settling is cheap if there is none.
        return True


class Assembler:
    """Assembles the blocks of one response from its deltas.

    Pass every delta to `feed` and show the returned deltas. At the end of the stream, show the
    result of `flush`, and call `finish` to get the response.

    Args:
        turn: The number of the model call in its session; generated ids contain it.
        known_call_ids: The ids of earlier calls in the session.
        cumulative: True if the endpoint is known to repeat all the text in each chunk.
        prompt: The request, for estimating its size if the endpoint reports no token counts.
        lenient: True to repair arguments that are almost valid JSON.
        text_calls: Finds calls in the text; None if the text contains no calls.
    """

    __slots__ = (
        "_closed",
        "_damaged",
        "_damaged_late",
        "_finish",
        "_goes_on",
        "_ids",
        "_last_touched",
        "_lenient",
        "_parts",
        "_prompt",
        "_slots",
        "_text",
        "_text_calls",
        "_thinking",
        "_trusted",
        "_usage",
        "_usage_partial",
    )

    def __init__(
        self,
        *,
        turn: int = 1,
        known_call_ids: AbstractSet[str] = frozenset(),
        cumulative: bool = False,
        prompt: ModelRequest | None = None,
        lenient: bool = False,
        text_calls: TextCalls | None = None,
    ) -> None:
        self._ids = CallIds(turn=turn, known=known_call_ids)
        flow = TextFlow if text_calls is None else _WatchedFlow
        self._text = flow(cumulative=cumulative)
        self._text_calls = text_calls
        self._thinking = TextFlow(cumulative=cumulative)
        self._prompt = prompt
        self._lenient = lenient
        self._slots = SlotTable()
        # If a flow is holding text back, that text belongs to the last part.
        self._parts: list[_Prose | Slot] = []
        self._last_touched: Slot | None = None
        self._finish: FinishReason | None = None
        # `_closed` is True after a finish reason, until more content follows. If an endpoint has
        # ever continued after a finish reason (`_goes_on`), later finish reasons no longer close
        # the response.
        self._closed = self._goes_on = False
        # `_damaged` is True once something was lost; `_damaged_late` if the response was closed by
        # then.
        self._damaged = self._damaged_late = False
        # The numbers of the calls that were complete when something was lost. An empty set would
        # take 150 bytes more than a dict.
        self._trusted: dict[int, None] = {}
        self._usage: Usage | None = None
        self._usage_partial = False

    @classmethod
    def for_request(
        cls,
        request: ModelRequest,
        *,
        cumulative: bool = False,
        text_calls: TextCalls | None = None,
    ) -> "Assembler":
        """Create an assembler for the response to a request."""
        return cls(
            turn=request.turn,
            known_call_ids=request.known_call_ids,
            cumulative=cumulative,
            prompt=request,
            lenient=request.settings.lenient_tool_json,
            text_calls=text_calls,
        )

    @property
    def finish_hint(self) -> FinishReason | None:
        """The finish reason of the endpoint; None until it arrives."""
        return self._finish

    @property
    def size(self) -> int:
        """The number of characters of the response so far. Expensive: visits every chunk."""
        held = 0 if self._text_calls is None else self._text_calls.held
        return held + sum(part.size for part in self._parts)

    def feed(self, delta: ModelDelta) -> Sequence[ModelDelta]:
        """Process a delta.

        Returns:
            The deltas to show now: new text only, fragments of calls that have a name, token counts
            and notices. A fragment has the id of the call, and the number of the call as its index.
            Once arguments of a call were shown, its id and name no longer change, even if the
            endpoint sends different ones later.
        """
        if self._closed and isinstance(delta, TextDelta | ThinkingDelta | ToolCallDelta):
            self._reopen(delta)
        if isinstance(delta, TextDelta):
            return self._feed_text(delta)
        if isinstance(delta, ThinkingDelta):
            return self._feed_thinking(delta)
        if isinstance(delta, ToolCallDelta):
            return self._feed_call(delta)
        if isinstance(delta, UsageDelta):
            self._usage, self._usage_partial = delta.usage, delta.partial
            return (delta,)
        if isinstance(delta, NoticeDelta | ProgressDelta):
            return (delta,)
        if _WEIGHT[delta.reason] >= _WEIGHT[self._finish]:
            self._finish = delta.reason
        self._closed = not self._goes_on
        return _NOTHING

    def damage(self) -> Sequence[ModelDelta]:
        """Record that something may be lost between the last delta and the next one.

        Returns:
            The deltas from earlier content that have not been shown yet.
        """
        self._damaged = True
        shown: Sequence[ModelDelta] = _NOTHING
        if self._text_calls is not None:
            shown = [*self._settle(), *self._show(self._text_calls.damage())]
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Prose):
            last.damaged = True
        if self._closed:
            self._damaged_late = True
            return shown
        for slot in self._slots:
            if slot.damaged or slot.number in self._trusted:
                continue
            if slot is not self._slots.last and _has_arguments(slot):
                self._trusted[slot.number] = None
            else:
                slot.damaged = True
        return shown

    def _reopen(self, delta: TextDelta | ThinkingDelta | ToolCallDelta) -> None:
        """Handle content after a finish reason, which was therefore not final."""
        if not (isinstance(delta, ToolCallDelta) or delta.text):
            return
        self._closed, self._goes_on = False, True
        if self._damaged_late:
            for slot in self._slots:
                slot.damaged = True

    def is_plain(self, *, thinking: bool) -> bool:
        """Return whether more text of this kind would simply extend the last block."""
        part = self._parts[-1] if self._parts else None
        if not isinstance(part, _Prose) or part.thinking is not thinking or self._closed:
            return False
        return (self._thinking if thinking else self._text).is_plain

    def feed_plain(
        self, texts: Sequence[str], *, thinking: bool, joined: bool = False
    ) -> Iterable[ModelDelta]:
        """Process several chunks of text, faster than `feed`; return the deltas to show.

        Args:
            texts: Text without surrogates; empty chunks are ignored.
            thinking: True for thinking, False for text; `is_plain` must be True for this kind.
            joined: True to return a single delta for all chunks.
        """
        part = self._prose(thinking=thinking)
        if joined:
            texts = ("".join(texts),)
        part.pieces += texts
        return map(ThinkingDelta if thinking else TextDelta, filter(None, texts))

    @property
    def growing_call(self) -> int | None:
        """The index of the call that a fragment with only an index and arguments would extend.

        None if `feed` would have to do more than append the arguments.
        """
        slot = self._last_touched
        if slot is None or self._finish is not None:
            return None
        if not (slot.name and slot.call_id) or slot is not self._slots.last:
            return None
        return self._slots.last_index()

    def feed_fragments(
        self, pieces: Sequence[str], *, joined: bool = False
    ) -> Sequence[ModelDelta]:
        """Process several fragments of the growing call, faster than `feed`.

        Args:
            pieces: Argument text without surrogates, in fragments that are not empty. There must be
                a `growing_call`.
            joined: True to return a single delta for all fragments.
        """
        slot = self._last_touched
        assert slot is not None
        if joined:
            pieces = ("".join(pieces),)
        slot.extend(pieces)
        number, call_id, name = slot.number, slot.call_id, slot.name
        return [ToolCallDelta(number, call_id, name, piece) for piece in pieces]

    def flush(self) -> Sequence[ModelDelta]:
        """Return the deltas that have not been shown when the stream ends."""
        settled = self._settle()
        if self._text_calls is None:
            return settled
        return [*settled, *self._show(self._text_calls.flush())]

    def _settle(self) -> Sequence[ModelDelta]:
        """Return the deltas to show before anything that does not extend the last text."""
        part = self._parts[-1] if self._parts else None
        if isinstance(part, _Prose) and part.thinking:
            thoughts = part.shown(self._thinking.flush())
            return thoughts if self._text_calls is None else [*thoughts, *self._settle_text()]
        return self._settle_text()

    def _settle_text(self) -> Sequence[ModelDelta]:
        """Return the text deltas to show before thinking."""
        if self._text_calls is not None:
            found = [*self._text_calls.feed(self._text.flush()), *self._text_calls.settle()]
            return self._show(found)
        part = self._parts[-1] if self._parts else None
        return part.shown(self._text.flush()) if isinstance(part, _Prose) else _NOTHING

    def finish(
        self, *, truncated: bool = False, model: str = "", response_id: str = ""
    ) -> ModelCompleted:
        """Return the complete response. Call `flush` first.

        Args:
            truncated: True if the stream ended with neither a finish reason nor an end mark.
            model: The name of the model as reported by the endpoint.
            response_id: The endpoint's id for the response.
        """
        cut = "the response was cut off at its token limit" if self._finish == "length" else ""
        if truncated and not cut:
            cut = "the stream broke off"
        blocks: list[AssistantBlock] = []
        for part in self._parts:
            if isinstance(part, Slot):
                part.damaged |= self._damaged and self._finish is None
                blocks += self._calls_of(part, cut if part is self._last_touched else "")
            elif (block := part.block()) is not None:
                blocks.append(block)
        return ModelCompleted(
            blocks=tuple(blocks),
            finish_reason=self._reason(blocks, truncated=truncated),
            usage=self._counted(blocks),
            model=mend_surrogates(model),
            response_id=mend_surrogates(response_id),
        )

    def _feed_text(self, delta: TextDelta) -> Sequence[ModelDelta]:
        if not delta.text:
            self._attach(delta.extra)
            return _NOTHING
        settled = self._settle() if self._thinking.holds else _NOTHING
        text = self._text.feed(delta.text)
        if self._text_calls is not None:
            shown = self._show(self._text_calls.feed(text))
            self._attach(delta.extra)
            return [*settled, *shown] or _PROGRESS
        part = self._prose(thinking=False)
        if delta.extra:
            part.add_fields(delta.extra)
        elif text is delta.text and not settled:  # almost every chunk of every stream
            part.pieces.append(text)
            return (delta,)
        return [*settled, *part.shown(text)]

    def _feed_thinking(self, delta: ThinkingDelta) -> Sequence[ModelDelta]:
        if not (delta.text or delta.signature or delta.extra):
            return _NOTHING
        settled = self._settle_text() if self._text.holds else _NOTHING
        text = self._thinking.feed(delta.text) if delta.text else ""
        part = self._prose(thinking=True)
        part.signature += delta.signature
        if delta.extra:
            part.add_fields(delta.extra)
        return [*settled, *part.shown(text)]

    def _show(self, found: Sequence[Found]) -> list[ModelDelta]:
        """Process the deltas that were found in text. Earlier text is already settled."""
        shown: list[ModelDelta] = []
        for delta in found:
            if isinstance(delta, ToolCallDelta):
                shown += self._feed_call(delta, settle=False)
            else:
                part = self._prose(thinking=isinstance(delta, ThinkingDelta))
                shown += part.shown(delta.text)
        return shown

    def _prose(self, *, thinking: bool) -> _Prose:
        """Return the block that text of this kind extends, or a new one."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Prose) and last.thinking == thinking:
            return last
        part = _Prose(thinking=thinking)
        self._parts.append(part)
        return part

    def _attach(self, extra: Mapping[str, JsonValue]) -> None:
        """Add extra fields that arrived without text to the last text or thinking block."""
        if not extra:
            return
        for part in reversed(self._parts):
            if isinstance(part, _Prose):
                part.add_fields(extra)
                return

    def _feed_call(self, delta: ToolCallDelta, *, settle: bool = True) -> Sequence[ModelDelta]:
        count = len(self._slots)
        slot = self._slots.slot_of(delta)
        settled: Sequence[ModelDelta] = _NOTHING
        if len(self._slots) > count:
            if settle:
                settled = self._settle()
            self._parts.append(slot)
            slot.after_damage = self._damaged
        elif self._damaged and (not slot.after_damage or _is_misplaced(delta, slot)):
            # The fragment continues a call that was open, or considered complete, when something
            # was lost. Or it has the index of another call, whose first fragment may be lost.
            slot.damaged = True
        name_before = slot.name
        piece = slot.add(delta)
        if slot.is_empty:
            return settled
        self._last_touched = slot
        news = bool(piece) or slot.name != name_before
        if slot.name and not name_before:
            piece = slot.arguments  # fragments before the name have not been shown
        if not slot.call_id or (slot.id and not slot.given_for and not slot.shown):
            call_id = self._ids.give(slot.number, mend_surrogates(slot.id))
            slot.call_id, slot.given_for = call_id, slot.id
            piece, news = slot.arguments, True
        if not (news and slot.name):
            return settled or (_PROGRESS if news else _NOTHING)
        slot.shown = slot.shown or bool(piece)
        # In the block, split surrogate pairs are joined, but a subscriber must be able to encode
        # each chunk.
        shown = ToolCallDelta(slot.number, slot.call_id, slot.name, mend_surrogates(piece))
        return [*settled, shown]

    def _calls_of(self, slot: Slot, cut: str) -> Iterator[AssistantBlock]:
        """Yield the calls of a slot: one call, or one per object in its arguments."""
        if slot.is_empty:
            return
        extra = mend_object(slot.extra)
        # A call that was cut off is not repaired: its text may look complete although more was to
        # follow.
        lenient = self._lenient and not (cut or self._damaged)
        for number, parsed in enumerate(parse_arguments(slot.arguments, lenient=lenient)):
            call_id = self._ids.give(slot.number) if number else slot.call_id
            if number:  # the fields arrived with the first call, and may be its signatures
                extra = _NO_FIELDS
            fault = REFUSED_CALL if self._finish in REFUSALS else _fault_of(slot, parsed, cut)
            if not fault and isinstance(parsed, GoodArguments):
                raw = parsed.raw if slot.textual else ""
                mended = parsed.repaired or slot.repaired
                yield ToolUseBlock(
                    call_id, slot.name, parsed.input, raw, repaired=mended, extra=extra
                )
            else:
                raw_data = parsed.raw or mend_surrogates(slot.arguments) or None
                yield ToolUseError(fault, raw_data, call_id, slot.name, extra=extra)

    def _reason(self, blocks: Sequence[AssistantBlock], *, truncated: bool) -> FinishReason:
        reason = self._finish or ("unmarked" if truncated else "unknown")
        calls = any(isinstance(block, ToolUseBlock | ToolUseError) for block in blocks)
        if reason == "stop" and calls:
            return "tool_calls"
        if reason == "tool_calls" and not calls:
            return "stop"
        return reason

    def _counted(self, blocks: Sequence[AssistantBlock]) -> Usage:
        """Return the endpoint's token counts, with estimates for missing ones."""
        usage = self._usage
        if usage is not None and not self._usage_partial:
            return usage
        guess = self._estimated(blocks)
        if usage is None:
            return guess
        return attrs.evolve(
            usage,
            input_tokens=usage.input_tokens or guess.input_tokens,
            output_tokens=usage.output_tokens or guess.output_tokens,
            estimated=True,
        )

    def _estimated(self, blocks: Sequence[AssistantBlock]) -> Usage:
        thinking = sum(len(b.thinking) for b in blocks if isinstance(b, ThinkingBlock))
        text = sum(len(b.text) for b in blocks if isinstance(b, TextBlock))
        arguments = sum(len(slot.arguments) for slot in self._slots)
        return Usage(
            input_tokens=estimate_prompt_tokens(self._prompt) if self._prompt else 0,
            output_tokens=estimate_tokens(thinking + text + arguments),
            reasoning_tokens=estimate_tokens(thinking),
            estimated=True,
        )


def estimate_prompt_tokens(request: ModelRequest) -> int:
    """Estimate the prompt tokens of a request: a quarter of its characters, but at least 1.

    For a request without any content, the estimate is 0.
    """
    tools = sum(
        len(tool.name) + len(tool.description) + len(dump_object(tool.input_schema or {}))
        for tool in request.tools
    )
    around = estimate_tokens(len(request.system_prompt) + tools)
    each = request.memo.map("tokens", request.messages, Message.estimate_tokens)
    has_input = (
        tools or request.system_prompt or any(message.blocks for message in request.messages)
    )
    return max(sum(each) + around, 1 if has_input else 0)


def _has_arguments(slot: Slot) -> bool:
    """Return whether the arguments are one or more non-empty JSON objects.

    An empty object may be the start of the arguments: some endpoints send one first.
    """
    parsed = parse_arguments(slot.arguments)
    return all(isinstance(item, GoodArguments) and bool(item.input) for item in parsed)


def _is_misplaced(fragment: ToolCallDelta, slot: Slot) -> bool:
    return not fragment.id and fragment.index is not None and fragment.index != slot.indexed


def _fault_of(slot: Slot, parsed: ParsedArguments, cut: str) -> str:
    """Return the reason why a call cannot be executed; empty if it can."""
    if slot.damaged:
        return DAMAGED_CALL
    if not slot.name:
        return "the call does not name a tool: its function name is missing"
    if slot.after_damage and (isinstance(parsed, BadArguments) or not parsed.input):
        return DAMAGED_CALL
    if isinstance(parsed, BadArguments):
        return f"{cut} before the arguments of this call were complete" if cut else parsed.error
    if cut and slot.textual and not parsed.input:
        return f"{cut} before the arguments of this call arrived"
    return ""

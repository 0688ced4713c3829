"""Pieces of an answer become its blocks.

Owns one answer of a model from its first piece to the `ModelCompleted`. It knows no vendor: what is
shaped by one is undone in `providers/<name>/`, which feeds neutral `ModelDelta`s. How text is told
from repeated text stands in `text`, which fragment belongs to which call in `slots`, what argument
text means in `arguments`, and how ids are made in `call_ids`.

Blocks stand in the order in which they were first seen. Text goes on in the block before it as long
as that is of its kind; thinking, or a new call, in between begins a new block. A call stands where
its first fragment came.

A call is a `ToolUseBlock` exactly if it has a name and whole arguments; what the endpoint says of
how the answer ended is only a hint. If the answer was cut (`length`, or a stream that just ended),
the call that came last is not whole unless its arguments say so: with none, or an empty object that
may have been the start of more, it becomes a `ToolUseError`. What did not come whole never runs.

Where something of the response is lost on the way (`damage`), calls are trusted only if they were
complete before: the endpoint had given its reason for the end, or the arguments were a JSON object
and another call had begun. A call that began after the loss is trusted if its arguments say that
they are complete. Without any reason for the end no call is trusted: the lost line may have been
the one that refused the response. No call of a refused or filtered response is carried out.

Where the text may hold calls, `text_calls` finds them in what `text` has let through.

Feeding is linear in what is fed: pieces are kept in lists and joined once.
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
from agent_actors.domain.json import JsonObject, JsonValue
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
"""The error of a call that was not complete when something of the response was lost."""

_NOTHING: Final[Sequence[ModelDelta]] = ()
# What is held back is shown to nobody yet; but a stream that brings it is not silent.
_PROGRESS: Final[Sequence[ModelDelta]] = (ProgressDelta(),)

_WEIGHT: Final[dict[FinishReason | None, int]] = {
    None: 0,
    "unknown": 1,
    "stop": 2,
    "tool_calls": 2,
    "length": 3,
    "refused": 4,
    "refusal": 4,
    "content_filter": 4,
}
"""Endpoints repeat and contradict themselves: a heavier reason is not undone by a lighter one."""


class _Prose:
    """A text or thinking block while it grows."""

    __slots__ = ("damaged", "extra", "pieces", "signature", "thinking")

    def __init__(self, *, thinking: bool) -> None:
        self.thinking = thinking
        self.pieces: list[str] = []
        # True if some of it may be lost.
        self.damaged = False
        self.signature = ""
        self.extra: JsonObject = {}

    @property
    def size(self) -> int:
        """Characters so far."""
        return sum(map(len, self.pieces)) + len(self.signature)

    def shown(self, text: str) -> Sequence[ModelDelta]:
        """Take text that is to be shown; return how."""
        if not text:
            return _NOTHING
        self.pieces.append(text)
        return (ThinkingDelta(text) if self.thinking else TextDelta(text),)

    def block(self) -> AssistantBlock | None:
        """The finished block; None if nothing came that is worth one."""
        text = "".join(self.pieces)
        if self.thinking:
            if not (text or self.signature or self.extra):
                return None
            # A signature is of the complete thought: with another text it is refused for ever.
            seal = "" if self.damaged else mend_surrogates(self.signature)
            return ThinkingBlock(text, seal, extra=mend_object(self.extra))
        return TextBlock(text, extra=mend_object(self.extra)) if text else None


class _WatchedFlow(TextFlow):
    """A flow of text that may hold calls: no piece of it can go past whoever looks for them."""

    __slots__ = ()

    @property
    def is_plain(self) -> bool:
        return False

    @property
    def holds(self) -> bool:
        # Also what waits for the end of a mark; to settle it is cheap if nothing does.
        return True


class Assembler:
    """Makes the blocks of one answer from its pieces.

    Feed every piece and show what comes back; when no more comes, show what `flush` gives, and take
    the answer from `finish`.

    Args:
        turn: The number of the model call in its session; made-up ids carry it.
        known_call_ids: The ids of the session's earlier calls.
        cumulative: True if the endpoint is known to repeat all the text in each piece.
        prompt: What was asked, to estimate its size by if the endpoint does not count.
        lenient: Whether arguments that are nearly JSON are read as what they mean.
        text_calls: Finds calls in the text; None: text is text.
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
        # If a flow holds something back, the last part is the block that it belongs to.
        self._parts: list[_Prose | Slot] = []
        self._last_touched: Slot | None = None
        self._finish: FinishReason | None = None
        # True while a reason for the end has come and no content after it. An endpoint that once
        # went on after its reason (`_goes_on`) closes nothing by it.
        self._closed = self._goes_on = False
        # True once something was lost; and if that was when the response was closed.
        self._damaged = self._damaged_late = False
        # Calls, by number, that were complete when something was lost.
        self._trusted: set[int] = set()
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
        """One for the answer to this request."""
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
        """How the endpoint says that the answer ends; None while it has not."""
        return self._finish

    @property
    def size(self) -> int:
        """Characters of the answer so far. It looks at every piece: for now and then."""
        held = 0 if self._text_calls is None else self._text_calls.held
        return held + sum(part.size for part in self._parts)

    def feed(self, delta: ModelDelta) -> Sequence[ModelDelta]:
        """Take a piece.

        Returns:
            What is to be shown now: new text only; fragments of calls that have a name, under the
            call's id, with its number as index; token counts and notices. Once arguments of a call
            were shown, its id and its name stay what they are, whatever the endpoint sends late.
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
        """Something of the response may be lost between what was fed and what is fed next.

        Returns:
            What is still to be shown of what came before.
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
                self._trusted.add(slot.number)
            else:
                slot.damaged = True
        return shown

    def _reopen(self, delta: TextDelta | ThinkingDelta | ToolCallDelta) -> None:
        """Content after the reason for the end: the reason meant nothing."""
        if not (isinstance(delta, ToolCallDelta) or delta.text):
            return
        self._closed, self._goes_on = False, True
        if self._damaged_late:
            for slot in self._slots:
                slot.damaged = True

    def is_plain(self, *, thinking: bool) -> bool:
        """True if more text of this kind would go on in the block before it, and be shown as is."""
        part = self._parts[-1] if self._parts else None
        if not isinstance(part, _Prose) or part.thinking is not thinking or self._closed:
            return False
        return (self._thinking if thinking else self._text).is_plain

    def feed_plain(self, texts: Sequence[str], *, thinking: bool) -> Iterable[ModelDelta]:
        """Take pieces of text, all at once, and return what is to be shown: as `feed`, only faster.

        Args:
            texts: Text without surrogates; empty ones count for nothing.
            thinking: The kind of text; `is_plain` was true of it.
        """
        part = self._prose(thinking=thinking)
        part.pieces += texts
        return map(ThinkingDelta if thinking else TextDelta, filter(None, texts))

    def flush(self) -> Sequence[ModelDelta]:
        """What is still to be shown when no more pieces come."""
        settled = self._settle()
        if self._text_calls is None:
            return settled
        return [*settled, *self._show(self._text_calls.flush())]

    def _settle(self) -> Sequence[ModelDelta]:
        """What is to be shown before something else than more of the last text."""
        part = self._parts[-1] if self._parts else None
        if isinstance(part, _Prose) and part.thinking:
            thoughts = part.shown(self._thinking.flush())
            return thoughts if self._text_calls is None else [*thoughts, *self._settle_text()]
        return self._settle_text()

    def _settle_text(self) -> Sequence[ModelDelta]:
        """What is to be shown of text before a thought."""
        if self._text_calls is not None:
            found = [*self._text_calls.feed(self._text.flush()), *self._text_calls.settle()]
            return self._show(found)
        part = self._parts[-1] if self._parts else None
        return part.shown(self._text.flush()) if isinstance(part, _Prose) else _NOTHING

    def finish(
        self, *, truncated: bool = False, model: str = "", response_id: str = ""
    ) -> ModelCompleted:
        """The whole answer; `flush` was called before.

        Args:
            truncated: True if the stream ended without a word of its end.
            model: The model's name as the endpoint gave it.
            response_id: The endpoint's id of the answer.
        """
        cut = "the answer was cut off at its token limit" if self._finish == "length" else ""
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
            finish_reason=self._reason(blocks),
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
            part.extra.update(delta.extra)
        elif text is delta.text and not settled:  # nearly every piece of every stream
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
        part.extra.update(delta.extra)
        return [*settled, *part.shown(text)]

    def _show(self, found: Sequence[Found]) -> list[ModelDelta]:
        """Take what was found in text, which nothing has to be settled for any more."""
        shown: list[ModelDelta] = []
        for delta in found:
            if isinstance(delta, ToolCallDelta):
                shown += self._feed_call(delta, settle=False)
            else:
                part = self._prose(thinking=isinstance(delta, ThinkingDelta))
                shown += part.shown(delta.text)
        return shown

    def _prose(self, *, thinking: bool) -> _Prose:
        """The block in which text of this kind goes on, or a new one."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Prose) and last.thinking == thinking:
            return last
        part = _Prose(thinking=thinking)
        self._parts.append(part)
        return part

    def _attach(self, extra: Mapping[str, JsonValue]) -> None:
        """Keep what came beside no text with the last text or thinking there is."""
        if not extra:
            return
        for part in reversed(self._parts):
            if isinstance(part, _Prose):
                part.extra.update(extra)
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
        elif self._damaged and not slot.after_damage:
            # More of a call that was open, or counted as complete, when something was lost.
            slot.damaged = True
        name_before = slot.name
        piece = slot.add(delta)
        if slot.is_empty:
            return settled
        self._last_touched = slot
        news = bool(piece) or slot.name != name_before
        if slot.name and not name_before:
            piece = slot.arguments  # what came before the name has not been shown
        if not slot.call_id or (slot.id and not slot.given_for and not slot.shown):
            given = self._ids.give(slot.number, mend_surrogates(slot.id))
            slot.call_id, slot.given_for = given, slot.id
            piece, news = slot.arguments, True
        if not (news and slot.name):
            return settled or (_PROGRESS if news else _NOTHING)
        slot.shown = slot.shown or bool(piece)
        # Halves of characters are joined in the block; a reader must be able to encode each piece.
        shown = ToolCallDelta(slot.number, slot.call_id, slot.name, mend_surrogates(piece))
        return [*settled, shown]

    def _calls_of(self, slot: Slot, cut: str) -> Iterator[AssistantBlock]:
        """The calls in a slot: one, or as many as there were objects in its arguments."""
        if slot.is_empty:
            return
        extra = mend_object(slot.extra)
        # What was cut is not repaired: it may look whole and have been the start of more.
        lenient = self._lenient and not (cut or self._damaged)
        for number, parsed in enumerate(parse_arguments(slot.arguments, lenient=lenient)):
            call_id = self._ids.give(slot.number) if number else slot.call_id
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

    def _reason(self, blocks: Sequence[AssistantBlock]) -> FinishReason:
        reason = self._finish or "unknown"
        calls = any(isinstance(block, ToolUseBlock | ToolUseError) for block in blocks)
        if reason == "stop" and calls:
            return "tool_calls"
        if reason == "tool_calls" and not calls:
            return "stop"
        return reason

    def _counted(self, blocks: Sequence[AssistantBlock]) -> Usage:
        """The endpoint's counts; one that it left out is estimated."""
        told = self._usage
        if told is not None and not self._usage_partial:
            return told
        guess = self._estimated(blocks)
        if told is None:
            return guess
        return attrs.evolve(
            told,
            input_tokens=told.input_tokens or guess.input_tokens,
            output_tokens=told.output_tokens or guess.output_tokens,
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
    """A rough count of what a request sends: a quarter of its characters, but no less than 1.

    Of a request that says nothing at all it is 0.
    """
    tools = sum(
        len(tool.name) + len(tool.description) + len(dump_object(tool.input_schema or {}))
        for tool in request.tools
    )
    around = estimate_tokens(len(request.system_prompt) + tools)
    each = request.memo.map("tokens", request.messages, Message.estimate_tokens)
    said = tools or request.system_prompt or any(message.blocks for message in request.messages)
    return max(sum(each) + around, 1 if said else 0)


def _has_arguments(slot: Slot) -> bool:
    """True if the arguments are one or more JSON objects, and not empty.

    An empty object may be the start of more: some endpoints send one before the arguments.
    """
    parsed = parse_arguments(slot.arguments)
    return all(isinstance(one, GoodArguments) and bool(one.input) for one in parsed)


def _fault_of(slot: Slot, parsed: ParsedArguments, cut: str) -> str:
    """Why this call cannot be carried out; empty if it can."""
    if slot.damaged:
        return DAMAGED_CALL
    if not slot.name:
        return "the call names no tool: its function name is missing"
    if slot.after_damage and (isinstance(parsed, BadArguments) or not parsed.input):
        return DAMAGED_CALL
    if isinstance(parsed, BadArguments):
        return f"{cut} before the arguments of this call were whole" if cut else parsed.error
    if cut and slot.textual and not parsed.input:
        return f"{cut} before the arguments of this call came"
    return ""

"""Decode the chunks of a chat completion into neutral deltas.

This module interprets OpenAI's chunks and common deviations from them, one chunk at a time. The
assembler combines deltas across chunks. The decoder uses everything that it can read, even from an
invalid field. It skips a line that is not JSON, and leaves out a field of the wrong type. Such
damage is counted and reported, because a part of the response is lost. Errors that the endpoint
reports are raised. If a choice reports a failure, possibly as its finish reason, the error is
stored in `failure` and not raised, so that the content of the same chunk is not lost.

All choices are read as one response. A request asks for only one choice, but some endpoints number
the parts of a response as if they were choices. The complete `message` of a choice is used only if
the choice has no `delta`, because some endpoints send a growing message alongside the deltas.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from agent_actors.codec.json_text import NotJsonError
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import (
    REFUSALS,
    FinishDelta,
    FinishReason,
    ModelDelta,
    ProgressDelta,
    StopDetails,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderInBandError
from agent_actors.protocol.response.text import mend_object, mend_surrogates
from agent_actors.protocol.sse import Fault
from agent_actors.providers.damage import (
    NOT_A_FIELD,
    NOT_JSON,
    DamagedLines,
    damage_of,
    unchanged,
)
from agent_actors.providers.error_body import code_of, in_band_error
from agent_actors.providers.finish_words import (
    NO_REASON_WORDS,
    REFUSAL_WORDS,
    failure_of,
    plain_word,
)
from agent_actors.providers.foreign_body import SEARCHED_LINES, api_of_text
from agent_actors.providers.openai_chat.reasoning_details import ReasoningDetails
from agent_actors.providers.openai_chat.response_media import ResponseMedia, is_image
from agent_actors.providers.openai_chat.wire import (
    Choice,
    Chunk,
    Content,
    Delta,
    Function,
    PlainField,
    ToolCall,
    read_chunks,
    read_fragments,
    read_plain,
)
from agent_actors.providers.token_counts import count_in, has_count
from agent_actors.providers.wire_json import WireObject

_FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "paused",
    **REFUSAL_WORDS,
}
_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
"""The names of the token counts of the prompt and of the response, in several dialects."""


class ChunkDecoder:
    """Decodes the data lines of one response.

    Args:
        endpoint: The name of the endpoint in error messages.
        redact: Removes credentials from notices.

    Attributes:
        model: The name of the model from the endpoint; empty until it arrives.
        response_id: The endpoint's id for the response; empty until it arrives.
        damaged: The lines that could not be read completely.
        details: The `reasoning_details` of the response.
        media: The images and the audio of the response.
        answered: True once a choice has arrived.
        failure: The failure that a choice reported; None if there is none.
        foreign: The name of another API whose events the first lines contain; empty if unknown.
        summed_up: True if the last line had token counts but no choice.
        plain: The field to which the last line added text, if it did nothing else; the next line
            almost always does the same. None if the line did more, or while `model` or
            `response_id` is missing.
    """

    __slots__ = (
        "_endpoint",
        "_filtered",
        "_looked_at",
        "_prose",
        "_refusal",
        "_rich",
        "_thinks",
        "answered",
        "damaged",
        "details",
        "failure",
        "foreign",
        "media",
        "model",
        "plain",
        "response_id",
        "summed_up",
    )

    def __init__(self, *, endpoint: str, redact: Callable[[str], str] = unchanged) -> None:
        self._endpoint = endpoint
        # The text of a refusal so far, and the results of a content filter.
        self._refusal: list[str] = []
        self._filtered: JsonObject = {}
        # True once thinking has arrived in a separate field; in that case `reasoning_details`
        # repeat it.
        self._thinks = False
        # True if the last line had more than text: reasoning details, images or audio.
        self._rich = False
        self.details: ReasoningDetails = ReasoningDetails()
        self.media: ResponseMedia = ResponseMedia()
        # The field that the last text or thinking came from.
        self._prose: PlainField = "content"
        self.plain: PlainField | None = None
        self.model: str = ""
        self.response_id: str = ""
        self.damaged: DamagedLines = DamagedLines(redact)
        # The number of lines without a choice that were searched for signs of another API.
        self._looked_at = 0
        self.foreign: str = ""
        self.answered: bool = False
        self.failure: ProviderInBandError | None = None
        self.summed_up: bool = False

    def plain_texts(self, lines: Sequence[bytes], start: int) -> Sequence[str]:
        """Return the texts that the lines from `start` add to `plain`, until a line does more.

        The result is empty if the first line does anything else; the caller must decode that line.
        """
        if self.plain is None:
            return ()
        return read_plain(self.plain, lines[start:] if start else lines)

    def fragments(self, index: int, lines: Sequence[bytes], start: int) -> Sequence[str]:
        """Return what the lines from `start` add to the arguments of a call, until one does more.

        The result is empty if the first line does anything else; the caller must decode that line.
        """
        if not (self.model and self.response_id):
            return ()
        return read_fragments(index, lines[start:] if start else lines)

    def stop_details(self, reason: FinishReason) -> StopDetails | None:
        """Return the endpoint's explanation of a response that ended for this reason."""
        if reason not in REFUSALS:
            return None
        return StopDetails(
            "refusal" if reason == "refused" else reason,
            ", ".join(sorted(mend_surrogates(name) for name in self._filtered)),
            mend_surrogates("".join(self._refusal)),
            {"content_filter_results": mend_object(self._filtered)} if self._filtered else {},
        )

    def decode(self, data: str | bytes, fault: Fault = "") -> list[ModelDelta]:
        """Decode one data line into deltas; add the line to `damaged` if parts of it are lost.

        Args:
            data: The line.
            fault: The fault that the decoder of the event stream found.

        Raises:
            ProviderInBandError: The line reports an error.
        """
        if fault == "line":
            return self._skip(NOT_A_FIELD, data)
        lost: list[str] = []
        try:
            chunks = read_chunks(data, lost)
        except NotJsonError:
            return self._skip(NOT_JSON, data)
        deltas: list[ModelDelta] = []
        self.summed_up = self._rich = False
        for chunk in chunks:
            self._take(chunk, deltas)
        if not self.answered and self._looked_at < SEARCHED_LINES:
            self._looked_at += 1
            self.foreign = self.foreign or api_of_text(data)
        prose = len(deltas) == 1 and isinstance(deltas[0], TextDelta | ThinkingDelta)
        prose = prose and not self._rich
        self.plain = self._prose if prose and self.model and self.response_id else None
        what = damage_of(lost, fault)
        return [*deltas, *self._skip(what, data)] if what else deltas

    def _skip(self, what: str, data: str | bytes) -> list[ModelDelta]:
        """Report a line that could not be read completely, and continue."""
        line = data if isinstance(data, str) else data.decode("utf-8", "replace")
        return list(self.damaged.add(what, line))

    def _take(self, chunk: Chunk, deltas: list[ModelDelta]) -> None:
        if chunk.error:
            raise self._in_band(chunk.error)
        # A `message` with a role is a response from another API, not an error message.
        message = cast(JsonValue, chunk.message)
        has_role = isinstance(message, dict) and "role" in message
        if chunk.choices is None and not has_role and (message or chunk.detail):
            raise self._in_band(message or chunk.detail)
        self.model = self.model or chunk.model or ""
        self.response_id = self.response_id or chunk.id or ""
        self.answered = self.answered or bool(chunk.choices)
        for choice in chunk.choices or ():
            self._take_choice(choice, deltas)
        groq = chunk.x_groq or {}
        counts = chunk.usage or groq.get("usage")
        if isinstance(counts, dict):
            counted = list(_usage(cast(WireObject, counts)))
            deltas += counted
            self.summed_up = bool(counted) and not chunk.choices
        if groq.get("error"):
            self._fail(self._in_band(groq["error"], "x_groq.error"))

    def _fail(self, failure: ProviderInBandError | None) -> None:
        """Record the first failure that a choice reports."""
        self.failure = self.failure or failure

    def _in_band(self, error: object, code: str = "") -> ProviderInBandError:
        """Return the exception for an error; `code` is used if the error has none."""
        value = cast(JsonValue, error)
        return in_band_error(value, endpoint=self._endpoint, code=code_of(value) or code)

    def _take_choice(self, choice: Choice, deltas: list[ModelDelta]) -> None:
        delta = choice.message if choice.delta is None else choice.delta
        if delta is not None:
            self._take_delta(delta, deltas, whole=choice.delta is None)
        word = plain_word(choice.finish_reason or "")
        if choice.error:
            self._fail(self._in_band(choice.error, word))
        if word not in NO_REASON_WORDS:
            self._fail(failure_of(word, endpoint=self._endpoint))
            deltas.append(FinishDelta(_FINISH.get(word, "unknown")))
        if choice.content_filter_results:
            self._take_filter(choice.content_filter_results, deltas)
        if choice.usage:
            deltas.extend(_usage(choice.usage))

    def _take_details(
        self, details: list[object], deltas: list[ModelDelta], *, whole: bool
    ) -> None:
        self._rich = True
        text = self.details.add(details, whole=whole)
        if not self._thinks:
            deltas.append(ThinkingDelta(text) if text else ProgressDelta())

    def _take_filter(self, results: WireObject, deltas: list[ModelDelta]) -> None:
        """Read the results of a content filter. Only results with `filtered` set matter."""
        found = {
            name: result
            for name, result in cast(JsonObject, results).items()
            if isinstance(result, dict) and result.get("filtered") is True
        }
        if found:
            self._filtered.update(found)
            deltas.append(FinishDelta("content_filter"))

    def _take_delta(self, delta: Delta, deltas: list[ModelDelta], *, whole: bool) -> None:
        if delta.reasoning_content or delta.reasoning:
            # The old and the new name of the same field; they are never used together.
            self._prose = "reasoning_content" if delta.reasoning_content else "reasoning"
            deltas.extend(_thoughts(delta.reasoning_content or delta.reasoning))
            self._thinks = True
        if delta.reasoning_details:
            self._take_details(delta.reasoning_details, deltas, whole=whole)
        if delta.content:
            if isinstance(delta.content, str):
                self._prose = "content"
                deltas.append(TextDelta(delta.content))
            else:
                deltas.extend(_parts(delta.content, self.media))
        if delta.images:
            self._rich = True
            deltas.extend(self.media.add_images(delta.images))
        if delta.audio:
            self._rich = True
            deltas.extend(self.media.add_audio(cast(JsonObject, delta.audio)))
        if delta.refusal:
            deltas.append(TextDelta(delta.refusal))
            if not self._refusal:
                deltas.append(FinishDelta("refusal"))
            self._refusal.append(delta.refusal)
        if delta.extra_content:
            deltas.append(TextDelta("", {"extra_content": cast(JsonValue, delta.extra_content)}))
        if delta.tool_calls:
            deltas.extend(_calls(delta.tool_calls))
        if delta.function_call is not None:
            deltas.append(_call(0, "", delta.function_call, None))


def _calls(calls: list[ToolCall]) -> Iterator[ToolCallDelta]:
    # Several items in one list are several calls. If the endpoint does not number them, their
    # positions are used.
    places = len(calls) > 1 and all(call.index is None and not call.id for call in calls)
    for place, call in enumerate(calls):
        index = place if places else call.index
        yield _call(index, call.id or "", call.function, call.extra_content)


def _call(
    index: int | None, call_id: str, function: Function | None, extra: WireObject | None
) -> ToolCallDelta:
    echo: JsonObject = {"extra_content": cast(JsonValue, extra)} if extra else {}
    if function is None:
        return ToolCallDelta(index, call_id, extra=echo)
    arguments = cast("str | JsonObject | None", function.arguments)
    return ToolCallDelta(index, call_id, function.name or "", arguments, echo)


def _thoughts(content: Content) -> Iterator[ModelDelta]:
    """Decode thinking: text, an object, or parts with text and possibly a signature."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str) and part:
            yield ThinkingDelta(part)
        elif isinstance(part, dict):
            found = cast(JsonObject, part)
            text, signature = _text_of(found), found.get("signature")
            seal = signature if isinstance(signature, str) else ""
            if text or seal:
                yield ThinkingDelta(text, seal)


def _parts(content: list[object] | WireObject, media: ResponseMedia) -> Iterator[ModelDelta]:
    """Decode content in parts: text, thinking and images. Other parts are not shown."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str) and part:
            yield TextDelta(part)
        elif isinstance(part, dict):
            found = cast(JsonObject, part)
            if found.get("type") in {"thinking", "reasoning"}:
                yield from _thoughts([found])
            elif is_image(found):
                yield from media.add_images([found])
            elif text := _text_of(found):
                yield TextDelta(text)


def _text_of(part: JsonObject) -> str:
    """Return the text of a part, under any of its known names, or the text of its inner parts."""
    for key in ("text", "thinking", "reasoning", "content", "refusal"):
        value = part.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(
                item if isinstance(item, str) else _text_of(item)
                for item in value
                if isinstance(item, str | dict)
            )
    return ""


def _usage(raw: WireObject) -> Iterator[UsageDelta]:
    """Decode token counts, using the names of several dialects; nothing if all counts are zero."""
    prompt = _nested(raw, "prompt_tokens_details", "input_tokens_details")
    completion = _nested(raw, "completion_tokens_details", "output_tokens_details")
    usage = Usage(
        input_tokens=count_in(raw, *_INPUT),
        output_tokens=count_in(raw, *_OUTPUT),
        cache_read_tokens=count_in(prompt, "cached_tokens")
        or count_in(raw, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens"),
        cache_creation_tokens=count_in(prompt, "cache_creation_tokens", "cache_write_tokens")
        or count_in(raw, "cache_creation_input_tokens"),
        reasoning_tokens=count_in(completion, "reasoning_tokens")
        or count_in(raw, "reasoning_tokens"),
    )
    if usage != Usage():
        yield UsageDelta(usage, partial=not (has_count(raw, *_INPUT) and has_count(raw, *_OUTPUT)))


def _nested(raw: WireObject, *keys: str) -> WireObject:
    for key in keys:
        value = raw.get(key)
        if isinstance(value, dict):
            return cast(WireObject, value)
    return {}

"""The quirks of endpoints that use OpenAI's chat completions, in any combination.

`CHAT_QUIRKS` holds each quirk with its number in the catalogue of observed quirks, in the order in
which they are applied: calls, text, ends, usage, and last the lines of the stream. The functions
that change a response are in `chat_calls` and `chat_stream`.
"""

import json
from typing import Final

import attrs

from agent_actors.domain.json import JsonObject
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing.conformance import chat_stream as stream
from agent_actors.testing.conformance import lines
from agent_actors.testing.conformance.chat_call_quirks import CALL_QUIRKS
from agent_actors.testing.conformance.quirks import (
    ERROR_MESSAGE,
    Hidden,
    Quirk,
    QuirkBook,
    Steps,
    apart,
    book_of,
    in_order,
    one_of,
    without_calls,
)
from agent_actors.testing.script import Call, Interleave, Say, Step, Think

_REASON: Final[frozenset[Hidden]] = frozenset({"reason"})
_USAGE: Final[frozenset[Hidden]] = frozenset({"usage"})

_ERROR: Final[JsonObject] = {"error": {"message": ERROR_MESSAGE, "code": 502}}
_ERROR_TEXT: Final = json.dumps(_ERROR).encode()


def _choice_error() -> JsonObject:
    choice: JsonObject = {"index": 0, "delta": {"content": ""}, "finish_reason": "error", **_ERROR}
    return {"id": "x", "choices": [choice]}


def _as_document(steps: Steps) -> Steps:
    """Return thinking, then text, then calls: a document can have no other order."""
    ranks: dict[type, int] = {Think: 0, Say: 1, Call: 2, Interleave: 2}
    return tuple(sorted(in_order(steps), key=lambda step: ranks.get(type(step), 3)))


def _no_repeats(steps: Steps) -> Steps:
    """Remove pieces of text or thinking that begin with all previous text of the same kind."""
    so_far: dict[type, str] = {Say: "", Think: ""}
    found: list[Step] = []
    for step in steps:
        if not isinstance(step, Say | Think):
            found.append(step)
            continue
        kept: list[str] = []
        for piece in step.pieces:
            before = so_far[type(step)]
            if not (before and piece.startswith(before)):
                kept.append(piece)
                so_far[type(step)] += piece
        found.append(attrs.evolve(step, pieces=tuple(kept)))
    return tuple(found)


_PROSE: Final = (
    Quirk(
        name="small_pieces",
        about="Each delta contains one character of the text.",
        change=stream.cut(stream.letters),
    ),
    Quirk(
        name="split_characters",
        number=48,
        about="A character outside the Basic Multilingual Plane is split between two deltas.",
        change=stream.cut(lines.halves),
    ),
    Quirk(
        name="empty_pieces",
        about="The text in some deltas is empty.",
        change=stream.cut(lambda text: ["", text, ""]),
    ),
    Quirk(
        name="message_beside",
        number=41,
        about="Each chunk also contains the complete message so far.",
        change=stream.message_beside,
    ),
    Quirk(
        name="cumulative",
        number=41,
        about="Each delta repeats the complete text so far.",
        change=stream.cumulative,
        dialect=ChatDialect(cumulative=True),
    ),
    Quirk(
        name="text_again",
        number=41,
        about="The last delta repeats the complete text.",
        change=stream.text_again,
        shape=_no_repeats,
        turns="no delta begins with the complete text so far",
        dialect=ChatDialect(cumulative=True),
    ),
    Quirk(
        name="text_parts",
        number=39,
        about="The text is a list of typed parts.",
        change=stream.on_prose("content", stream.text_in_parts),
    ),
    Quirk(
        name="reasoning",
        number=37,
        about="Thinking is sent as `reasoning`, together with empty content.",
        change=stream.on_prose(stream.THOUGHT, lambda text: ({"reasoning": text, "content": ""},)),
    ),
    Quirk(
        name="reasoning_twice",
        number=37,
        about="Thinking is sent in both fields, `reasoning` and `reasoning_content`.",
        change=stream.on_prose(
            stream.THOUGHT, lambda text: ({"reasoning": text, "reasoning_content": text},)
        ),
    ),
    Quirk(
        name="reasoning_details",
        about="Thinking is sent only as `reasoning_details`.",
        change=stream.on_prose(stream.THOUGHT, stream.thought_in_details),
    ),
    Quirk(
        name="reasoning_object",
        number=38,
        about="Thinking is an object that contains the text.",
        change=stream.on_prose(
            stream.THOUGHT, lambda text: ({"reasoning_content": {"text": text}},)
        ),
    ),
    Quirk(
        name="reasoning_parts",
        number=39,
        about="Thinking is a part of the content.",
        change=stream.on_prose(stream.THOUGHT, stream.thought_in_parts),
    ),
    Quirk(
        name="null_tool_calls",
        number=10,
        about="In deltas without a call, `tool_calls` is null.",
        change=stream.on_deltas(tool_calls=None),
    ),
    Quirk(
        name="null_role",
        number=9,
        about="The role of deltas is null.",
        change=stream.on_deltas(role=None, refusal=None, function_call=None),
    ),
    Quirk(
        name="text_beside_calls",
        number=49,
        about="One delta contains both text and a call.",
        change=stream.text_beside_calls,
    ),
    Quirk(
        name="tools_in_choice_one",
        number=5,
        about="Calls are sent in a choice whose index differs from that of the text.",
        change=stream.tools_in_choice_one,
    ),
)

_ENDS: Final = (
    Quirk(
        name="reason_stop",
        number=27,
        about="The finish reason of a response with calls is `stop`.",
        change=stream.reason_becomes("stop", only="tool_calls"),
    ),
    Quirk(
        name="reason_empty",
        number=29,
        about="The finish reason of every chunk is an empty string.",
        change=stream.every_reason("", end_too=True),
        hides=_REASON,
    ),
    Quirk(
        name="reason_null_text",
        number=30,
        about="Before the end, the finish reason is the string `null`.",
        change=stream.every_reason("null", end_too=False),
    ),
    Quirk(
        name="reason_absent",
        number=30,
        about="Before the end, chunks do not contain a field for the finish reason.",
        change=stream.no_reason_between,
    ),
    Quirk(
        name="reason_early",
        number=31,
        about="The finish reason is already sent in the first chunk.",
        change=stream.reason_early,
    ),
    Quirk(
        name="reason_twice",
        number=31,
        about="The chunk with the finish reason is sent twice.",
        change=stream.reason_twice,
    ),
    Quirk(
        name="reason_with_last",
        number=31,
        about="The finish reason is sent in the last chunk with content.",
        change=stream.reason_with_last,
    ),
    Quirk(
        name="no_reason",
        number=32,
        about="The finish reason is never sent.",
        change=stream.no_reason,
        hides=_REASON,
    ),
    Quirk(
        name="no_usage",
        about="Token counts are never sent.",
        change=stream.without_counts,
        hides=_USAGE,
    ),
    Quirk(
        name="usage_everywhere",
        number=35,
        about="Every chunk contains token counts.",
        change=stream.counts_everywhere,
    ),
    Quirk(
        name="usage_then_empty",
        number=35,
        about="Empty token counts follow the real ones.",
        change=stream.counts_then_empty,
    ),
    Quirk(
        name="usage_in_x_groq",
        about="The token counts are sent in the field `x_groq` of the last chunk.",
        change=stream.counts_in_groq,
    ),
    Quirk(
        name="usage_in_choice",
        number=36,
        about="The token counts are sent in the last choice.",
        change=stream.counts_in_choice,
    ),
)

_EXTRA_CHUNKS: Final = (
    Quirk(
        name="filter_first",
        number=33,
        about="The first chunk contains the results of a content filter instead of choices.",
        change=stream.first(
            {"id": "", "choices": [], "created": 0, "model": "", "prompt_filter_results": []}
        ),
    ),
    Quirk(
        name="null_deltas",
        number=34,
        about="The stream also contains chunks with a null delta.",
        change=stream.between({"index": 0, "delta": None}),
    ),
    Quirk(
        name="no_deltas",
        number=34,
        about="The stream also contains chunks whose choice has no delta.",
        change=stream.between({"index": 0, "finish_reason": None}),
    ),
    Quirk(
        name="whole_document",
        number=47,
        about="The response is a complete document, although a stream was requested.",
        shape=_as_document,
        turns="thinking, then text, then separate calls",
        whole=True,
    ),
    Quirk(
        name="data_over_lines",
        about="The JSON of an event is spread over several data lines.",
        write=stream.over_lines,
    ),
    Quirk(
        name="chunks_in_arrays",
        about="The data of each event is an array that contains one chunk.",
        write=stream.in_arrays,
    ),
    Quirk(
        name="null_lines",
        number=34,
        about="The stream also contains chunks that are null.",
        write=lines.before_each(b"data: null\n\n"),
    ),
    Quirk(
        name="junk_lines",
        about="The stream also contains data lines that are not valid JSON.",
        write=lines.before_each(b"data: {no json\n\n"),
        shape=without_calls,
        turns="turns without calls (which could be incomplete) and without signatures",
    ),
    Quirk(
        name="event_names",
        number=43,
        about="Each event has a name.",
        write=stream.named_events,
    ),
    Quirk(
        name="spaced_done",
        about="`[DONE]` is surrounded by spaces.",
        write=stream.spaced_done,
    ),
)

_ERRORS: Final = (
    Quirk(
        name="error_chunk",
        number=45,
        about="The stream ends with a chunk that contains an error.",
        change=stream.ends_with_error(_ERROR),
        outcome="error",
    ),
    Quirk(
        name="error_in_choice",
        number=45,
        about="The stream ends with a choice that contains an error and the finish reason `error`.",
        change=stream.ends_with_error(_choice_error()),
        outcome="error",
    ),
    Quirk(
        name="error_in_x_groq",
        number=45,
        about="The stream ends with a chunk whose `x_groq` contains an error.",
        change=stream.ends_with_error(
            {"id": "x", "choices": [], "x_groq": {"id": "r", "error": ERROR_MESSAGE}}
        ),
        outcome="error",
    ),
    Quirk(
        name="error_beside_choices",
        number=45,
        about="The stream ends with a chunk that contains an error and an empty list of choices.",
        change=stream.ends_with_error({"id": "x", "choices": [], **_ERROR}),
        outcome="error",
    ),
    Quirk(
        name="error_event",
        number=43,
        about="The stream ends with an event named `error`.",
        change=stream.ends_with_error(),
        write=stream.error_frame(b"event: error\ndata: %b\n\n" % _ERROR_TEXT),
        outcome="error",
    ),
    Quirk(
        name="error_field",
        number=46,
        about="The stream ends with a line that begins with `error:`.",
        change=stream.ends_with_error(),
        write=stream.error_frame(b"error: %b\n\n" % _ERROR_TEXT),
        outcome="error",
    ),
    Quirk(
        name="error_document",
        number=47,
        about="The body is an error document instead of a stream, although the status is 200.",
        write=stream.error_document,
        whole=True,
        outcome="error",
    ),
)

_LINES: Final = (
    Quirk(
        name="comments",
        number=42,
        about="Comments are sent to keep the connection alive.",
        write=lines.before_each(b": OPENROUTER PROCESSING\n\n"),
    ),
    Quirk(
        name="bare_comments",
        number=42,
        about="Comments that consist only of a colon are sent to keep the connection alive.",
        write=lines.before_each(b":\n\n"),
    ),
    Quirk(
        name="blank_lines",
        number=42,
        about="Blank lines are sent to keep the connection alive.",
        write=lines.before_each(b"\n\n\n"),
    ),
    Quirk(
        name="no_done",
        number=32,
        about="The stream ends without `[DONE]`.",
        write=stream.no_done,
    ),
    Quirk(
        name="no_last_blank_line",
        about="The last event is not followed by a blank line.",
        write=lines.no_last_blank_line,
    ),
    Quirk(
        name="byte_order_mark",
        about="The body begins with a byte order mark and blank lines.",
        write=stream.marked_first,
    ),
    Quirk(
        name="no_space",
        number=43,
        about="There is no space after `data:`.",
        write=stream.no_space,
    ),
    Quirk(
        name="crlf",
        number=44,
        about="Lines end with CR LF.",
        write=lines.replaced(b"\n", b"\r\n"),
    ),
    Quirk(
        name="cr",
        number=44,
        about="Lines end with CR.",
        write=lines.replaced(b"\n", b"\r"),
    ),
)

_STREAM: Final = (*_PROSE, *_ENDS, *_ERRORS, *_EXTRA_CHUNKS, *_LINES)
_QUIRKS: Final = book_of((*CALL_QUIRKS, *_STREAM))

# ---- quirks that cannot be combined ----

_NO_PARAMETERS: Final = ("arguments_empty", "arguments_absent", "arguments_null")
_FAULTS: Final = tuple(quirk.name for quirk in CALL_QUIRKS if quirk.outcome == "fault")
_FORMS: Final = ("arguments_object", "arguments_wrapped", "arguments_again")
_ARGUMENTS: Final = (*_NO_PARAMETERS, *_FORMS, "empty_object_first")
_IN_HEAD: Final = ("head_with_arguments", "whole_call")
_IN_TEXT: Final = ("calls_in_tags", "calls_in_harmony")
_LATER: Final = ("empty_id_later", "empty_names_later", "nulls_later", "head_repeated")
_IDS: Final = ("no_ids", "id_is_name", "id_known", "short_ids")
_INDEXES: Final = tuple(quirk.name for quirk in CALL_QUIRKS if "index" in quirk.name)
_NO_PLACES: Final = ("no_index", "index_zero", "index_negative")
_THOUGHTS: Final = (
    "reasoning",
    "reasoning_twice",
    "reasoning_details",
    "reasoning_object",
    "reasoning_parts",
)
_CUTS: Final = ("small_pieces", "split_characters")
_NO_REASONS: Final = ("reason_empty", "no_reason")
_REASONS: Final = (*_NO_REASONS, "reason_stop", "reason_early", "reason_twice", "reason_with_last")
_COUNTS: Final = (
    "no_usage",
    "usage_everywhere",
    "usage_then_empty",
    "usage_in_x_groq",
    "usage_in_choice",
)
_OF_CALLS: Final = tuple(quirk.name for quirk in CALL_QUIRKS)

_EXCLUSIONS: Final = (
    one_of("arguments can have only one of these forms", _ARGUMENTS),
    one_of("a call can be damaged in only one way", _FAULTS),
    apart("damaged arguments can have no other form", _FAULTS, (*_NO_PARAMETERS, *_FORMS)),
    one_of("a call can begin in only one way", _IN_HEAD),
    one_of("later fragments can have only one form", _LATER),
    one_of("ids can have only one form", _IDS),
    one_of("an index can have only one form", _INDEXES),
    one_of("thinking can have only one form", _THOUGHTS),
    one_of("the finish reason can be sent in only one way", _REASONS),
    one_of(
        "before the end, the finish reason can have only one form",
        ("reason_empty", "reason_null_text", "reason_absent"),
    ),
    one_of("token counts can be sent in only one place", _COUNTS),
    one_of("a response can fail in only one way", [e.name for e in _ERRORS]),
    one_of("lines can have only one kind of line ending", ("crlf", "cr")),
    one_of("data can have only one form", ("data_over_lines", "chunks_in_arrays")),
    one_of("a name can be sent in only one way", ("name_in_two", "name_late", "head_repeated")),
    apart("the name must be complete before arguments are sent", ["name_in_two"], _IN_HEAD),
    apart(
        "a name with a different index begins another call",
        ["index_of_next"],
        ["name_in_two", "name_late"],
    ),
    apart(
        "half a character cannot be distinguished from a repetition of the complete character",
        ["cumulative"],
        ["split_characters"],
    ),
    one_of("text can be repeated in only one way", ("cumulative", "text_again")),
    apart("a failed response has no finish reason", [e.name for e in _ERRORS], _REASONS),
    apart("two calls could not be separated", ["no_ids"], (*_NO_PLACES, "index_of_next")),
    apart(
        "joined calls share one id and one name",
        ["joined_calls"],
        [name for name in _OF_CALLS if name not in {"joined_calls", *_INDEXES}],
    ),
    apart(
        "calls in the text are not sent as fragments",
        _IN_TEXT,
        [name for name in _OF_CALLS if name not in _IN_TEXT],
    ),
    one_of("calls in the text can have only one format", _IN_TEXT),
    apart("a repeated call looks like a repetition of the text so far", _IN_TEXT, ["text_again"]),
    apart(
        "a fragment without id and name looks like a part of the previous call",
        ["no_ids"],
        ["name_late"],
    ),
    apart(
        "a response has at most one `function_call`, without id and index",
        ["function_call"],
        (*_IDS, *_LATER, *_INDEXES, "extra_content", "calls_in_one_list"),
    ),
    apart("a repeated character looks like a repetition of the text so far", ["text_again"], _CUTS),
    apart("the end of the response could not be detected", ["no_done"], _NO_REASONS),
    apart("a response can fail in only one way", _FAULTS, [e.name for e in _ERRORS]),
    apart(
        "the response is not a stream",
        ["whole_document", "error_document"],
        [name for name in _QUIRKS if name != "byte_order_mark"],
    ),
)

CHAT_QUIRKS: Final = QuirkBook(
    "chat", _QUIRKS, _EXCLUSIONS, stream.events_of, stream.frames_of, stream.document_of
)
"""All quirks of chat completions, and the combinations that are excluded."""

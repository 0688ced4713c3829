"""The quirks of endpoints and gateways that use Anthropic's Messages API, in any combination.

`MESSAGES_QUIRKS` holds them in the order in which they are applied. Each quirk was observed at an
endpoint or a gateway, or is a small variation of an observed one. The functions that change a
response are in `messages_events`.
"""

import json
from typing import Final

from agent_actors.domain.json import JsonObject
from agent_actors.testing.conformance import lines
from agent_actors.testing.conformance import messages_events as events
from agent_actors.testing.conformance.quirks import (
    ERROR_MESSAGE,
    Hidden,
    Quirk,
    QuirkBook,
    apart,
    book_of,
    in_order,
    one_of,
    without_calls,
)

_RAW: Final[frozenset[Hidden]] = frozenset({"raw"})
_REASON: Final[frozenset[Hidden]] = frozenset({"reason"})
_REASON_AND_USAGE: Final[frozenset[Hidden]] = frozenset({"reason", "usage"})
_ONE_BY_ONE: Final = "separate calls"
_ERROR: Final[JsonObject] = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": ERROR_MESSAGE},
}

_ARGUMENTS: Final = (
    Quirk(
        name="input_in_start",
        about="The start event of a call's block contains the arguments.",
        change=events.arguments(lines.loaded, lambda _: None),
        hides=_RAW,
    ),
    Quirk(
        name="input_twice",
        about="The arguments are sent in the start event of a call's block, and again later.",
        change=events.arguments(lines.loaded, lambda text: text),
    ),
    Quirk(
        name="input_wrapped",
        about="The arguments are encoded twice, as a JSON string inside a JSON string.",
        change=events.arguments(lambda _: {}, json.dumps),
    ),
    Quirk(
        name="input_as_object",
        about="The arguments are an object instead of a JSON string.",
        change=events.arguments(lambda _: {}, lines.loaded),
        hides=_RAW,
    ),
    Quirk(
        name="input_after_empty",
        about="An empty object is sent before the real arguments.",
        change=events.arguments(lambda _: {}, lambda text: "{}" + text),
    ),
)

_TEXTS: Final = (
    Quirk(
        name="small_pieces",
        about="Each delta contains one character of text or arguments.",
        change=events.cut(lambda text: list(text) or [""]),
    ),
    Quirk(
        name="split_characters",
        about="A character outside the Basic Multilingual Plane is split between two deltas.",
        change=events.cut(lines.halves),
    ),
    Quirk(
        name="empty_pieces",
        about="The text in some deltas is empty.",
        change=events.cut(lambda text: ["", text, ""]),
    ),
    Quirk(
        name="text_in_start",
        about="The start event of a block contains the first part of its text.",
        change=events.text_in_start,
    ),
    Quirk(
        name="signature_late",
        about="A signature is sent after its block has ended.",
        change=events.signature_late,
    ),
)

_INDEXES: Final = (
    Quirk(
        name="index_from_one",
        about="The index of the first block is 1.",
        change=events.renumbered(lambda index: index + 1),
    ),
    Quirk(
        name="index_as_text",
        about="The index of a block is a string.",
        change=events.renumbered(str),
    ),
    Quirk(
        name="index_as_float",
        about="The index of a block is a float, for example 0.0.",
        change=events.renumbered(float),
    ),
    Quirk(
        name="same_index",
        about="The index of every block is 0.",
        change=events.renumbered(lambda _: 0),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="no_index",
        about="Blocks have no index.",
        change=events.each(lambda one: ({k: v for k, v in one.items() if k != "index"},)),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
)

_ENDS: Final = (
    Quirk(
        name="no_prose_start",
        about="No start events are sent for text and thinking blocks.",
        change=events.of_type("content_block_start", events.no_prose_start),
    ),
    Quirk(
        name="start_twice",
        about="The start event of each block is sent twice.",
        change=events.twice("content_block_start"),
    ),
    Quirk(
        name="no_block_stop",
        about="No stop events are sent for blocks.",
        change=events.without("content_block_stop"),
    ),
    Quirk(
        name="block_stop_twice",
        about="The stop event of each block is sent twice.",
        change=events.twice("content_block_stop"),
    ),
    Quirk(
        name="message_start_twice",
        about="The start event of the message is sent twice.",
        change=events.twice("message_start"),
    ),
    Quirk(
        name="no_message_start",
        about="No start event is sent for the message.",
        change=events.without("message_start"),
    ),
    Quirk(
        name="no_counts_at_start",
        about="The start event of the message does not contain token counts.",
        change=events.of_type("message_start", events.no_counts_at_start),
    ),
    Quirk(
        name="message_delta_twice",
        about="The finish reason and the token counts are sent twice.",
        change=events.twice("message_delta"),
    ),
    Quirk(
        name="no_message_delta",
        about="At the end, neither a finish reason nor token counts are sent.",
        change=events.without("message_delta"),
        hides=_REASON_AND_USAGE,
    ),
    Quirk(
        name="no_message_stop",
        about="No stop event is sent for the message.",
        change=events.without("message_stop"),
    ),
    Quirk(
        name="state_at_start",
        about="The start event of the message already contains the finish reason.",
        change=events.state_at_start,
    ),
    Quirk(
        name="reason_end_turn",
        about="The finish reason of a response with calls is `end_turn`.",
        change=events.reason({"tool_use": "end_turn"}),
    ),
    Quirk(
        name="reason_of_openai",
        about="The finish reason is a value of chat completions.",
        change=events.reason({"end_turn": "stop", "tool_use": "tool_calls"}),
    ),
)

_BETWEEN: Final = (
    Quirk(
        name="nulls",
        about="Optional fields are null.",
        change=events.each(events.nulls),
    ),
    Quirk(
        name="no_delta_types",
        about="Deltas have no type.",
        change=events.of_type(
            "content_block_delta", lambda one: (events.with_fields(one, "delta", type=None),)
        ),
    ),
    Quirk(
        name="pings",
        about="A ping is sent after each event.",
        change=events.each(lambda one: (one, {"type": "ping"})),
    ),
    Quirk(
        name="unknown_events",
        about="The stream also contains events with an unknown type.",
        change=events.each(lambda one: ({"type": "vendor_metrics", "index": 0, "n": 1}, one)),
    ),
    Quirk(
        name="error_event",
        about="The stream ends with an `error` event, for example because of an overload.",
        change=events.ends_with(_ERROR),
        outcome="error",
    ),
)

_LINES: Final = (
    Quirk(
        name="no_types",
        about="The type of an event is sent only as its name, not in its data.",
        write=events.without_types,
    ),
    Quirk(
        name="no_event_names",
        about="The type of an event is sent only in its data; the event has no name.",
        write=events.without_names,
    ),
    Quirk(
        name="junk_lines",
        about="The stream also contains data lines that are not valid JSON.",
        write=lines.before_each(b"data: {no json\n\n"),
        shape=without_calls,
        turns="turns without calls (which could be incomplete) and without signatures",
    ),
    Quirk(
        name="comments",
        about="Comments are sent to keep the connection alive.",
        write=lines.before_each(b": keep-alive\n\n"),
    ),
    Quirk(
        name="done_marker",
        about="The stream ends with `[DONE]`, as in chat completions.",
        write=lambda frames: [*frames, b"data: [DONE]\n\n"],
    ),
    Quirk(
        name="whole_document",
        about="The response is a complete message, although a stream was requested.",
        hides=_RAW,
        whole=True,
    ),
    Quirk(
        name="error_document",
        about="The body is an error document instead of a stream, although the status is 200.",
        write=lambda _: [json.dumps(_ERROR).encode()],
        whole=True,
        outcome="error",
    ),
    Quirk(
        name="no_last_blank_line",
        about="The last event is not followed by a blank line.",
        write=lines.no_last_blank_line,
    ),
    Quirk(
        name="blanks_first",
        about="The body begins with a byte order mark and blank lines.",
        write=lambda frames: [b"\xef\xbb\xbf\n\n", *frames],
    ),
    Quirk(
        name="no_space",
        about="There is no space after `data:` and `event:`.",
        write=events.no_space,
    ),
    Quirk(
        name="crlf",
        about="Lines end with CR LF.",
        write=lines.replaced(b"\n", b"\r\n"),
    ),
    Quirk(
        name="cr",
        about="Lines end with CR.",
        write=lines.replaced(b"\n", b"\r"),
    ),
)

_QUIRKS: Final = book_of((*_ARGUMENTS, *_TEXTS, *_INDEXES, *_ENDS, *_BETWEEN, *_LINES))

# ---- quirks that cannot be combined ----

_NEED_ORDER: Final = ("same_index", "no_index")

_EXCLUSIONS: Final = (
    one_of("arguments can be sent in only one way", [one.name for one in _ARGUMENTS]),
    one_of("an index can have only one form", [one.name for one in _INDEXES]),
    one_of("lines can have only one kind of line ending", ("crlf", "cr")),
    one_of("there can be only one finish reason", ("reason_end_turn", "reason_of_openai")),
    one_of("the type of an event could not be detected", ("no_types", "no_event_names")),
    one_of(
        "the end of the response could not be detected", ("no_message_delta", "no_message_stop")
    ),
    one_of("the content of the start event would be lost", ("no_prose_start", "text_in_start")),
    apart(
        "two consecutive thinking blocks could not be separated", ["no_prose_start"], _NEED_ORDER
    ),
    apart(
        "two equal blocks would look like one block with two start events",
        ["no_block_stop"],
        _NEED_ORDER,
    ),
    one_of(
        "`state_at_start` copies the end of the message", ("state_at_start", "no_message_delta")
    ),
    apart("the response is not a stream", ["whole_document", "error_document"], _QUIRKS),
)

MESSAGES_QUIRKS: Final = QuirkBook(
    "messages", _QUIRKS, _EXCLUSIONS, events.events_of, events.frames_of, events.document_of
)
"""All quirks of Messages, and the combinations that are excluded."""

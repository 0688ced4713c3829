"""The quirks of endpoints and gateways that speak Anthropic's Messages, to be mixed at will.

`MESSAGES_QUIRKS` holds them in the order in which they are applied. Each was seen at an endpoint or
a gateway, or is one small step from one that was. What the changes do stands in `_messages_events`.
"""

import json
from typing import Final

from agent_actors.domain.json import JsonObject
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
_ONE_BY_ONE: Final = "calls one by one"
_ERROR: Final[JsonObject] = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": ERROR_MESSAGE},
}

_ARGUMENTS: Final = (
    Quirk(
        name="input_in_start",
        about="The arguments stand in the beginning of the call's block.",
        change=events.arguments(events.loaded, lambda _: None),
        hides=_RAW,
    ),
    Quirk(
        name="input_twice",
        about="The arguments stand in the beginning of the call's block, and come after it too.",
        change=events.arguments(events.loaded, lambda text: text),
    ),
    Quirk(
        name="input_wrapped",
        about="The arguments are encoded twice: a JSON string that holds JSON.",
        change=events.arguments(lambda _: {}, json.dumps),
    ),
    Quirk(
        name="input_as_object",
        about="The arguments are an object and not its text.",
        change=events.arguments(lambda _: {}, events.loaded),
        hides=_RAW,
    ),
    Quirk(
        name="input_after_empty",
        about="An empty object comes before the real arguments.",
        change=events.arguments(lambda _: {}, lambda text: "{}" + text),
    ),
)

_TEXTS: Final = (
    Quirk(
        name="small_pieces",
        about="Texts and arguments come a character at a time.",
        change=events.cut(lambda text: list(text) or [""]),
    ),
    Quirk(
        name="split_characters",
        about="A character outside the Basic Multilingual Plane is cut into two deltas.",
        change=events.cut(events.halves),
    ),
    Quirk(
        name="empty_pieces",
        about="There are deltas of empty text.",
        change=events.cut(lambda text: ["", text, ""]),
    ),
    Quirk(
        name="text_in_start",
        about="The first text of a block stands in its beginning.",
        change=events.text_in_start,
    ),
    Quirk(
        name="signature_late",
        about="A seal comes after its block ended.",
        change=events.signature_late,
    ),
)

_INDEXES: Final = (
    Quirk(
        name="index_from_one",
        about="The first block has the number 1.",
        change=events.renumbered(lambda index: index + 1),
    ),
    Quirk(
        name="index_as_text",
        about="The number of a block is a text.",
        change=events.renumbered(str),
    ),
    Quirk(
        name="index_as_float",
        about="The number of a block has a fraction of nothing.",
        change=events.renumbered(float),
    ),
    Quirk(
        name="same_index",
        about="Every block has the number 0.",
        change=events.renumbered(lambda _: 0),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="no_index",
        about="No block has a number.",
        change=events.each(lambda one: ({k: v for k, v in one.items() if k != "index"},)),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
)

_ENDS: Final = (
    Quirk(
        name="no_prose_start",
        about="Texts and thoughts come without the beginning of their block.",
        change=events.of_type("content_block_start", events.no_prose_start),
    ),
    Quirk(
        name="start_twice",
        about="The beginning of each block comes twice.",
        change=events.twice("content_block_start"),
    ),
    Quirk(
        name="no_block_stop",
        about="No block is said to end.",
        change=events.without("content_block_stop"),
    ),
    Quirk(
        name="block_stop_twice",
        about="The end of each block comes twice.",
        change=events.twice("content_block_stop"),
    ),
    Quirk(
        name="message_start_twice",
        about="The message begins twice.",
        change=events.twice("message_start"),
    ),
    Quirk(
        name="no_message_start",
        about="The message does not begin.",
        change=events.without("message_start"),
    ),
    Quirk(
        name="no_counts_at_start",
        about="The beginning of the message counts nothing.",
        change=events.of_type("message_start", events.no_counts_at_start),
    ),
    Quirk(
        name="message_delta_twice",
        about="Reason and counts come twice.",
        change=events.twice("message_delta"),
    ),
    Quirk(
        name="no_message_delta",
        about="Neither a reason nor counts come.",
        change=events.without("message_delta"),
        hides=_REASON_AND_USAGE,
    ),
    Quirk(
        name="no_message_stop",
        about="The message does not end.",
        change=events.without("message_stop"),
    ),
    Quirk(
        name="state_at_start",
        about="The reason stands in the beginning of the message already.",
        change=events.state_at_start,
    ),
    Quirk(
        name="reason_end_turn",
        about="An answer with calls ends with `end_turn`.",
        change=events.reason({"tool_use": "end_turn"}),
    ),
    Quirk(
        name="reason_of_openai",
        about="The reason is a word of chat completions.",
        change=events.reason({"end_turn": "stop", "tool_use": "tool_calls"}),
    ),
)

_BETWEEN: Final = (
    Quirk(
        name="nulls",
        about="Fields that need not be there are null.",
        change=events.each(events.nulls),
    ),
    Quirk(
        name="no_delta_types",
        about="Deltas do not say of what type they are.",
        change=events.of_type(
            "content_block_delta", lambda one: (events.with_fields(one, "delta", type=None),)
        ),
    ),
    Quirk(
        name="pings",
        about="There is a ping after each event.",
        change=events.each(lambda one: (one, {"type": "ping"})),
    ),
    Quirk(
        name="unknown_events",
        about="Between the events come some of a type that nobody knows.",
        change=events.each(lambda one: ({"type": "vendor_metrics", "index": 0, "n": 1}, one)),
    ),
    Quirk(
        name="error_event",
        about="The stream ends with an `error` event, such as an overload.",
        change=events.ends_with(_ERROR),
        outcome="error",
    ),
)

_LINES: Final = (
    Quirk(
        name="no_types",
        about="What an event is stands in its name only, not in its data.",
        write=events.without_types,
    ),
    Quirk(
        name="no_event_names",
        about="What an event is stands in its data only: it has no name.",
        write=events.without_names,
    ),
    Quirk(
        name="junk_lines",
        about="Between the events come data lines that are no JSON.",
        write=events.before_each(b"data: {no json\n\n"),
        shape=without_calls,
        turns="without calls, which could be incomplete, and without signatures",
    ),
    Quirk(
        name="comments",
        about="Comments keep the connection alive.",
        write=events.before_each(b": keep-alive\n\n"),
    ),
    Quirk(
        name="done_marker",
        about="The stream ends with `[DONE]`, which belongs to another protocol.",
        write=lambda frames: [*frames, b"data: [DONE]\n\n"],
    ),
    Quirk(
        name="whole_document",
        about="A whole message comes though a stream was asked.",
        hides=_RAW,
        whole=True,
    ),
    Quirk(
        name="error_document",
        about="The body is an error and no stream, though the status is 200.",
        write=lambda _: [json.dumps(_ERROR).encode()],
        whole=True,
        outcome="error",
    ),
    Quirk(
        name="no_last_blank_line",
        about="The last event has no blank line behind it.",
        write=events.no_last_blank_line,
    ),
    Quirk(
        name="blanks_first",
        about="The body begins with a byte order mark and blank lines.",
        write=lambda frames: [b"\xef\xbb\xbf\n\n", *frames],
    ),
    Quirk(
        name="no_space",
        about="There is no blank behind `data:` and `event:`.",
        write=events.no_space,
    ),
    Quirk(
        name="crlf",
        about="Lines end in CR LF.",
        write=events.replaced(b"\n", b"\r\n"),
    ),
    Quirk(
        name="cr",
        about="Lines end in CR.",
        write=events.replaced(b"\n", b"\r"),
    ),
)

_QUIRKS: Final = book_of((*_ARGUMENTS, *_TEXTS, *_INDEXES, *_ENDS, *_BETWEEN, *_LINES))

# ---- what does not go together ----

_NEED_ORDER: Final = ("same_index", "no_index")

_EXCLUSIONS: Final = (
    one_of("arguments stand in one place", [one.name for one in _ARGUMENTS]),
    one_of("an index has one form", [one.name for one in _INDEXES]),
    one_of("a line has one end", ("crlf", "cr")),
    one_of("there is one reason", ("reason_end_turn", "reason_of_openai")),
    one_of("nothing would tell what an event is", ("no_types", "no_event_names")),
    one_of("nothing would tell that it ended", ("no_message_delta", "no_message_stop")),
    one_of("what stands in the start would be lost", ("no_prose_start", "text_in_start")),
    apart("nothing would part two thoughts in a row", ["no_prose_start"], _NEED_ORDER),
    apart(
        "two equal blocks in a row could not be told from one that is begun twice",
        ["no_block_stop"],
        _NEED_ORDER,
    ),
    one_of("it needs the end that it copies", ("state_at_start", "no_message_delta")),
    apart("there is no stream to be odd", ["whole_document", "error_document"], _QUIRKS),
)

MESSAGES_QUIRKS: Final = QuirkBook(
    "messages", _QUIRKS, _EXCLUSIONS, events.events_of, events.frames_of, events.document_of
)
"""All of them, and which of them do not go together."""

"""The quirks of tool calls in chat completions, and the turns that endpoints with them can send.

`CALL_QUIRKS` holds them in the order in which they are applied: arguments, names, ids, the fields
of later fragments, and last the index, which all other changes need to find a call.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from agent_actors.domain.json import JsonValue
from agent_actors.profiles.dialect import ChatDialect
from agent_actors.testing.conformance import chat_calls as calls
from agent_actors.testing.conformance import lines
from agent_actors.testing.conformance.chat_stream import reason_becomes
from agent_actors.testing.conformance.quirks import (
    Events,
    Hidden,
    Quirk,
    Steps,
    in_order,
    map_calls,
)
from agent_actors.testing.script import Call, Say, Step

KNOWN_CALL_ID: Final = "call_before"
"""The id of a call in an earlier turn; the checks parse every response as if this call existed."""

_IDS: Final[frozenset[Hidden]] = frozenset({"ids"})
_RAW: Final[frozenset[Hidden]] = frozenset({"raw"})
_SIGNATURE: Final[Mapping[str, JsonValue]] = {
    "extra_content": {"google": {"thought_signature": "c2VhbA=="}}
}
_ONE_BY_ONE: Final = "separate calls"


# ---- turns that an endpoint can send ----


def _distinct_names(steps: Steps) -> Steps:
    """Return the steps with a different tool for each call, whose id is the tool's name."""

    def renamed(place: int, call: Call) -> Call:
        name = f"{call.name}_{place}"
        return attrs.evolve(call, name=name, id=name)

    return map_calls(steps, renamed)


def _short_ids(steps: Steps) -> Steps:
    return map_calls(steps, lambda place, call: attrs.evolve(call, id=f"Id{place:07d}"))


def _one_call(steps: Steps) -> Steps:
    found: list[Step] = []
    called = False
    for step in in_order(steps):
        if not (isinstance(step, Call) and called):
            found.append(step)
        called = called or isinstance(step, Call)
    return tuple(found)


def _without_marks(steps: Steps) -> Steps:
    """Replace markers in texts and arguments, and put texts with outer blanks in brackets."""
    found: list[Step] = []
    for step in in_order(steps):
        if isinstance(step, Say):
            fits = "<" not in step.text and step.text.strip() == step.text
            text = step.text.replace("<", "(").strip()
            found.append(step if fits else attrs.evolve(step, pieces=(f"[{text}]",)))
        elif isinstance(step, Call):
            found.append(attrs.evolve(step, pieces=(step.arguments.replace("<", "("),)))
        else:
            found.append(step)
    return tuple(found)


def _in_text(written: Callable[[str, str], str]) -> Callable[[Events], Events]:
    stop = reason_becomes("stop", only="tool_calls")
    return lambda events: stop(calls.in_text(written)(events))


_IN_TEXT: Final = (
    Quirk(
        name="calls_in_tags",
        number=25,
        about="Calls are written into the text, between `<tool_call>` and `</tool_call>`.",
        change=_in_text(calls.tagged),
        shape=_without_marks,
        turns="separate calls, text without markers",
        hides=_IDS | _RAW,
        dialect=ChatDialect(text_tool_calls="tags"),
    ),
    Quirk(
        name="calls_in_harmony",
        number=25,
        about="Calls are written into the text, in gpt-oss's format.",
        change=_in_text(calls.in_harmony),
        shape=_without_marks,
        turns="separate calls, text without markers",
        hides=_IDS | _RAW,
        dialect=ChatDialect(text_tool_calls="harmony"),
    ),
)

_CALLS: Final = (
    Quirk(
        name="arguments_empty",
        number=18,
        about="The arguments of a call without parameters are an empty string.",
        change=calls.parameterless(arguments=""),
        hides=_RAW,
    ),
    Quirk(
        name="arguments_absent",
        number=18,
        about="A call without parameters has no `arguments` field.",
        change=calls.parameterless(),
        hides=_RAW,
    ),
    Quirk(
        name="arguments_null",
        number=18,
        about="The arguments of a call without parameters are null.",
        change=calls.parameterless(arguments=None),
        hides=_RAW,
    ),
    Quirk(
        name="arguments_object",
        number=16,
        about="The arguments are an object instead of a JSON string.",
        change=calls.pieces(lambda text, _: [lines.loaded(text)]),
        hides=_RAW,
    ),
    Quirk(
        name="arguments_wrapped",
        number=17,
        about="The arguments are encoded twice, as a JSON string inside a JSON string.",
        change=calls.pieces(lambda text, _: [json.dumps(text)]),
    ),
    Quirk(
        name="arguments_again",
        number=15,
        about="The complete arguments are sent again after their fragments.",
        change=calls.pieces(lambda text, pieces: [*pieces, text]),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="empty_object_first",
        number=19,
        about="An empty object is sent before the real arguments.",
        change=calls.pieces(lambda _, pieces: ["{}", *pieces]),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="cut_short",
        number=28,
        about="The token limit truncates the last call's arguments, but no field reports this.",
        change=calls.on_last_call(calls.cut_short),
        shape=in_order,
        turns=_ONE_BY_ONE,
        outcome="fault",
        hides=_RAW,
    ),
    Quirk(
        name="quote_lost",
        number=26,
        about="A value in the arguments of the last call lacks its opening quotation mark.",
        change=calls.on_last_call(calls.without_quotes),
        shape=in_order,
        turns=_ONE_BY_ONE,
        outcome="fault",
        hides=_RAW,
    ),
    Quirk(
        name="head_with_arguments",
        number=20,
        about="The first fragment of a call already contains part of the arguments.",
        change=calls.on_calls(calls.head_takes_first),
    ),
    Quirk(
        name="whole_call",
        number=21,
        about="Each call is sent complete, in one fragment.",
        change=calls.on_calls(calls.head_takes_all),
    ),
    Quirk(
        name="leaked_token",
        number=24,
        about="The name of a call contains a control token of the chat format.",
        change=calls.on_calls(calls.leaked_token),
    ),
    Quirk(
        name="name_in_two",
        number=13,
        about="The name is split into two fragments.",
        change=calls.on_calls(calls.name_in_two),
    ),
    Quirk(
        name="name_late",
        number=14,
        about="The name is sent after the arguments.",
        change=calls.on_calls(calls.name_late),
    ),
    Quirk(
        name="no_ids",
        number=11,
        about="Calls have no id.",
        change=calls.heads(calls.without_id),
        hides=_IDS,
    ),
    Quirk(
        name="id_is_name",
        number=22,
        about="The id of a call is the name of its tool.",
        shape=_distinct_names,
        turns="calls of different tools",
    ),
    Quirk(
        name="id_known",
        number=22,
        about="The id of the first call was already used in an earlier turn.",
        change=calls.renamed_first(KNOWN_CALL_ID),
        hides=_IDS,
    ),
    Quirk(
        name="short_ids",
        number=23,
        about="Ids consist of nine letters and digits, and the endpoint rejects all other ids.",
        shape=_short_ids,
        dialect=ChatDialect(short_call_ids=True),
    ),
    Quirk(
        name="empty_id_later",
        number=7,
        about="Later fragments of a call contain a type and an empty id.",
        change=calls.later({"id": "", "type": "function"}),
    ),
    Quirk(
        name="empty_names_later",
        number=8,
        about="Later fragments of a call contain an empty id and an empty name.",
        change=calls.later({"id": ""}, name=""),
    ),
    Quirk(
        name="nulls_later",
        number=9,
        about="The id, type and name in later fragments of a call are null.",
        change=calls.later({"id": None, "type": None}, name=None),
    ),
    Quirk(
        name="head_repeated",
        number=12,
        about="Every fragment contains id, type and name, and a second name outside its function.",
        change=calls.on_calls(calls.head_repeated),
    ),
    Quirk(
        name="extra_content",
        number=40,
        about="A call contains an additional field that must be sent back with the call.",
        change=calls.heads(lambda head: {**head, **_SIGNATURE}),
        extra=_SIGNATURE,
    ),
    Quirk(
        name="joined_calls",
        number=15,
        about="A second call of a tool is sent as a second object in the arguments of the first.",
        change=calls.joined_calls,
        shape=in_order,
        turns=_ONE_BY_ONE,
        hides=_IDS,
    ),
    Quirk(
        name="index_of_next",
        number=6,
        about="The index of later fragments differs from that of the call's first fragment.",
        change=calls.on_calls(calls.index_of_next),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="calls_in_one_list",
        about="One delta contains fragments of several calls.",
        change=calls.calls_in_one_list,
    ),
    Quirk(
        name="function_call",
        number=50,
        about="The call is sent in the legacy form, as `function_call`.",
        change=lambda events: reason_becomes("function_call", only="tool_calls")(
            calls.legacy(events)
        ),
        shape=_one_call,
        turns="at most one call",
        hides=_IDS,
    ),
)

_INDEXES: Final = (
    Quirk(
        name="no_index",
        number=1,
        about="Call fragments have no index.",
        change=calls.on_fragments(calls.without_index),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="index_zero",
        number=2,
        about="The index of every call is 0.",
        change=calls.renumbered(lambda _: 0),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="index_negative",
        number=3,
        about="The index of every call is -1.",
        change=calls.renumbered(lambda _: -1),
        shape=in_order,
        turns=_ONE_BY_ONE,
    ),
    Quirk(
        name="index_sparse",
        number=4,
        about="Indexes start at 1 and have gaps.",
        change=calls.renumbered(lambda index: 3 * index + 1),
    ),
    Quirk(
        name="index_as_text",
        about="The index is a string.",
        change=calls.renumbered(str),
    ),
)

CALL_QUIRKS: Final = (*_IN_TEXT, *_CALLS, *_INDEXES)
"""All quirks of calls, in the order in which they are applied."""

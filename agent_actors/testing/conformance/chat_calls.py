"""Functions that change the tool calls in chat completion chunks, as endpoints do.

Pure functions of chunks, used by `quirks_chat`. They rely on the form of clean chunks. Each chunk
has one choice with one delta. The first fragment of a call (its head) contains the id and the name,
but no arguments. The index of every fragment is the call's position among the calls. Therefore a
change of an index must be applied after every change that looks for a call.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing.conformance.quirks import Events

Change = Callable[[Events], Events]
Fragments = list[JsonObject]


def delta_of(chunk: JsonObject) -> JsonObject:
    """Return the delta of a chunk; empty if the chunk has no choice."""
    choices = cast("list[JsonObject]", chunk["choices"])
    return cast(JsonObject, choices[0].get("delta") or {}) if choices else {}


def with_delta(chunk: JsonObject, delta: JsonValue) -> JsonObject:
    """Return a copy of the chunk whose choice has this delta."""
    return with_choice(chunk, delta=delta)


def with_choice(chunk: JsonObject, **fields: JsonValue) -> JsonObject:
    """Return a copy of the chunk whose choice has these fields."""
    (choice,) = cast("list[JsonObject]", chunk["choices"])
    return {**chunk, "choices": [{**choice, **fields}]}


def entry_of(chunk: JsonObject) -> JsonObject | None:
    """Return the fragment of a call in this chunk, or None."""
    calls = delta_of(chunk).get("tool_calls")
    return cast("list[JsonObject]", calls)[0] if calls else None


def function_of(fragment: JsonObject) -> JsonObject:
    """Return the function of a fragment, with its name and arguments."""
    return cast(JsonObject, fragment["function"])


def with_function(fragment: JsonObject, **fields: JsonValue) -> JsonObject:
    """Return the fragment with these fields in its function."""
    return {**fragment, "function": {**function_of(fragment), **fields}}


def on_fragments(change: Callable[[JsonObject], JsonObject]) -> Change:
    """Return a change that applies `change` to each fragment of every chunk."""

    def changed(event: JsonObject) -> JsonObject:
        delta = delta_of(event)
        entries = cast("list[JsonObject]", delta.get("tool_calls") or [])
        if not entries:
            return event
        return with_delta(event, {**delta, "tool_calls": [change(entry) for entry in entries]})

    return lambda events: [*map(changed, events)]


def on_calls(change: Callable[[Fragments], Fragments]) -> Change:
    """Return a change that applies `change` to the fragments of each call.

    Fragments keep their positions among those of other calls. Additional ones follow the last one.
    """

    def changed(events: Events) -> Events:
        fragments: dict[JsonValue, Fragments] = {}
        for event in events:
            entry = entry_of(event)
            if entry is not None:
                fragments.setdefault(entry["index"], []).append(entry)
        waiting = {place: change(found) for place, found in fragments.items()}
        left = {place: len(found) for place, found in fragments.items()}
        made: Events = []
        for event in events:
            entry = entry_of(event)
            if entry is None:
                made.append(event)
                continue
            place = entry["index"]
            left[place] -= 1
            count = 1 if left[place] else len(waiting[place])
            made += [with_delta(event, {"tool_calls": [one]}) for one in waiting[place][:count]]
            del waiting[place][:count]
        return made

    return changed


def on_last_call(change: Callable[[Fragments], Fragments]) -> Change:
    """Return a change that applies `change` only to the fragments of the last call."""

    def changed(events: Events) -> Events:
        entries = [entry for event in events if (entry := entry_of(event)) is not None]
        if not entries:
            return events
        last = entries[-1]["index"]
        return on_calls(lambda found: change(found) if found[0]["index"] == last else found)(events)

    return changed


def heads_apart(events: Events) -> Events:
    """Move the arguments out of the first fragment of each call, as OpenAI sends them."""
    found: Events = []
    for event in events:
        entry = entry_of(event)
        piece = function_of(entry)["arguments"] if entry else ""
        if entry is None or "type" not in entry or not piece:
            found.append(event)
            continue
        more: JsonObject = {"index": entry["index"], "function": {"arguments": piece}}
        for one in (with_function(entry, arguments=""), more):
            found.append(with_delta(event, {"tool_calls": [one]}))
    return found


# ---- arguments ----


def pieces_of(found: Fragments) -> list[JsonValue]:
    """Return the pieces of a call's arguments."""
    return [function_of(one)["arguments"] for one in found[1:]]


def text_of(found: Fragments) -> str:
    """Return the text of a call's arguments."""
    return "".join(map(str, pieces_of(found)))


def with_pieces(found: Fragments, pieces: Iterable[JsonValue]) -> Fragments:
    """Return the call with its arguments split into these pieces."""
    head = found[0]
    return [
        head,
        *({"index": head["index"], "function": {"arguments": piece}} for piece in pieces),
    ]


def pieces(change: Callable[[str, list[JsonValue]], Iterable[JsonValue]]) -> Change:
    """Return a change that applies `change` to the text and the pieces of each call's arguments."""
    return on_calls(
        lambda found: with_pieces(found, change(text_of(found), pieces_of(found))),
    )


def parameterless(**head: JsonValue) -> Change:
    """Send a call without arguments as only a head, whose function has these fields."""

    def change(found: Fragments) -> Fragments:
        if text_of(found) != "{}":
            return found
        function = {**function_of(found[0]), **head}
        if not head:
            del function["arguments"]
        return [{**found[0], "function": cast(JsonValue, function)}]

    return on_calls(change)


def cut_short(found: Fragments) -> Fragments:
    """Remove the last character of the call's arguments."""
    text = text_of(found)
    return with_pieces(found, [text[:-1]])


def without_quotes(found: Fragments) -> Fragments:
    """Add a value without its opening quotation mark to the call's arguments."""
    text = text_of(found)
    return with_pieces(found, [text[:-1], (", " if text != "{}" else "") + '"hvd": Pura90"}'])


# ---- heads ----


def head_takes_first(found: Fragments) -> Fragments:
    """Send the first piece of the arguments in the head."""
    head, *rest = found
    if not rest:
        return found
    return [with_function(head, arguments=function_of(rest[0])["arguments"]), *rest[1:]]


def head_takes_all(found: Fragments) -> Fragments:
    """Send the call as one fragment."""
    head, *rest = found
    if not rest:
        return found
    values = [function_of(one).get("arguments") for one in rest]
    odd = [value for value in values if isinstance(value, dict)]
    return [with_function(head, arguments=odd[0] if odd else "".join(map(str, values)))]


def name_in_two(found: Fragments) -> Fragments:
    """Send the name in two fragments, before the arguments."""
    head, *rest = found
    name = str(function_of(head)["name"])
    first, second = name[: len(name) // 2], name[len(name) // 2 :]
    if not first or first == second:
        return found  # parsers treat a repeated name as one name
    more: JsonObject = {"index": head["index"], "function": {"name": second}}
    return [with_function(head, name=first), more, *rest]


def name_late(found: Fragments) -> Fragments:
    """Send the name after the arguments."""
    head, *rest = found
    function = {key: value for key, value in function_of(head).items() if key != "name"}
    late: JsonObject = {"index": head["index"], "function": {"name": function_of(head)["name"]}}
    return [{**head, "function": cast(JsonValue, function)}, *rest, late]


def leaked_token(found: Fragments) -> Fragments:
    """Add a control token of the model's chat format to the name."""
    head, *rest = found
    return [with_function(head, name=f"{function_of(head)['name']}<|channel|>commentary"), *rest]


def head_repeated(found: Fragments) -> Fragments:
    """Send id, type and name in every fragment, and an additional name outside the function."""
    head, *rest = found
    name = function_of(head)["name"]
    function_json: JsonObject = {"type": "function", "name": None}
    if "id" in head:
        function_json["id"] = head["id"]
    return [
        {**head, "name": None},
        *(
            {
                **one,
                **function_json,
                "function": {"name": name, "arguments": function_of(one)["arguments"]},
            }
            for one in rest
        ),
    ]


def later(fields: Mapping[str, JsonValue], **function: JsonValue) -> Change:
    """Add these fields to all fragments except the head, and `function` to their functions."""

    def change(found: Fragments) -> Fragments:
        return [
            found[0],
            *({**fields, **one, "function": {**function, **function_of(one)}} for one in found[1:]),
        ]

    return on_calls(change)


def heads(change: Callable[[JsonObject], JsonObject]) -> Change:
    """Return a change that applies `change` to each call's head."""
    return on_calls(lambda found: [change(found[0]), *found[1:]])


def renamed_first(call_id: str) -> Change:
    """Give this id to the first call."""

    def change(found: Fragments) -> Fragments:
        head, *rest = found
        return [{**head, "id": call_id}, *rest] if head["index"] == 0 else found

    return on_calls(change)


def without_id(head: JsonObject) -> JsonObject:
    """Remove the id from the head."""
    return {key: value for key, value in head.items() if key != "id"}


# ---- indexes ----


def renumbered(number: Callable[[int], JsonValue]) -> Change:
    """Change the index of each call."""
    return on_fragments(lambda one: {**one, "index": number(cast(int, one["index"]))})


def without_index(fragment: JsonObject) -> JsonObject:
    """Remove the index from the fragment."""
    return {key: value for key, value in fragment.items() if key != "index"}


def index_of_next(found: Fragments) -> Fragments:
    """Add one to the index of the fragments after the head."""
    head, *rest = found
    return [head, *({**one, "index": cast(int, one["index"]) + 1} for one in rest)]


def calls_in_one_list(events: Events) -> Events:
    """Send adjacent fragments of different calls in one delta."""
    found: Events = []
    places: list[JsonValue] = []
    for event in events:
        entry = entry_of(event)
        if entry is None:
            places = []
            found.append(event)
        elif places and entry["index"] not in places:
            places.append(entry["index"])
            listed = cast("list[JsonValue]", delta_of(found[-1])["tool_calls"])
            found[-1] = with_delta(found[-1], {"tool_calls": [*listed, entry]})
        else:
            places = [entry["index"]]
            found.append(event)
    return found


def joined_calls(events: Events) -> Events:
    """Send a call as a second object in the arguments of the previous call, if both use one tool.

    Only calls with different, non-empty arguments are joined; other calls could not be separated.
    """
    found: Events = []
    texts = _texts(events)
    joined: dict[JsonValue, JsonValue] = {}
    before: JsonObject = {}
    for event in events:
        entry = entry_of(event)
        if entry is None:
            before = {}
            found.append(event)
            continue
        place = entry["index"]
        if "type" in entry:
            text = texts[place]
            if before.get("name") == function_of(entry)["name"] and text not in {
                "{}",
                *cast("list[str]", before["texts"]),
            }:
                joined[place] = before["place"]
                cast("list[str]", before["texts"]).append(text)
                continue
            name = function_of(entry)["name"]
            before = {} if text == "{}" else {"name": name, "place": place, "texts": [text]}
        index = joined.get(place, place)
        found.append(with_delta(event, {"tool_calls": [{**entry, "index": index}]}))
    return found


def _texts(events: Events) -> dict[JsonValue, str]:
    texts: dict[JsonValue, str] = {}
    for event in events:
        entry = entry_of(event)
        if entry is not None:
            piece = function_of(entry)["arguments"]
            texts[entry["index"]] = texts.get(entry["index"], "") + str(piece)
    return texts


def legacy(events: Events) -> Events:
    """Send the call as `function_call`."""

    def changed(event: JsonObject) -> JsonObject:
        entry = entry_of(event)
        if entry is None:
            return event
        return with_delta(event, {"role": "assistant", "function_call": entry["function"]})

    return [*map(changed, events)]


def in_text(written: Callable[[str, str], str]) -> Change:
    """Send calls as text; `written` formats the name and the text of the arguments."""

    def changed(events: Events) -> Events:
        texts = _texts(events)
        found: Events = []
        for event in events:
            entry = entry_of(event)
            if entry is None:
                found.append(event)
            elif "type" in entry:
                text = written(str(function_of(entry)["name"]), texts[entry["index"]])
                found.append(with_delta(event, {"content": text}))
        return found

    return changed


def tagged(name: str, arguments: str) -> str:
    """Format a call between tags."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def in_harmony(name: str, arguments: str) -> str:
    """Format a call as gpt-oss does."""
    head = f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json"
    return f"{head}<|message|>{arguments}<|call|>"

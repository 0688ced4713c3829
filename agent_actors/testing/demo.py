"""A script that serves any number of sessions at once, based on each session's messages.

The script has no state. If a conversation ends with tool results, the response is text; otherwise,
the response calls tools that the request offers. The `demo` command and the benchmarks use this
script.
"""

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Final

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing.replies import EndpointRequest, Reply, reply
from agent_actors.testing.script import Call, call, interleave, say, usage

# The number of prompt tokens in the reported usage; an arbitrary number.
_PROMPT_TOKENS: Final = 120
_FRAGMENTS_PER_CALL: Final = 3
_OPENING: Final = "I will look that up."
_ANSWER: Final = "All tools have returned, and here is a summary of their results."

ONE_SENTENCE: Final = len(_ANSWER.split())
"""The number of deltas that contain the text once; if there are more deltas, the text is repeated.
"""


def demo_script(
    tools: int = 8,
    *,
    tool_names: Sequence[str] | None = None,
    arguments: Callable[[int], JsonObject] | None = None,
    deltas: int = ONE_SENTENCE,
    every: float = 0.01,
) -> Callable[[EndpointRequest], Reply]:
    """Make a script for `ScriptedEndpoint`: parallel tool calls, then streamed text.

    Args:
        tools: The number of calls in the first response; their fragments are interleaved.
        tool_names: The tools to call, used cyclically; None: the tools that the request offers.
            Without tools, the text is sent at once.
        arguments: Returns the arguments of a call, given its position. None: made-up values for
            the properties that the tool's schema requires, and no others.
        deltas: The number of deltas of the text, one word each; by default one sentence.
        every: Seconds between two deltas.

    Returns:
        A function that takes a request and returns the reply.
    """

    def answer(request: EndpointRequest) -> Reply:
        schemas = request.tool_schemas
        names = list(schemas) if tool_names is None else tool_names
        if tools and names and not request.new_results:
            called = [(names[slot % len(names)], slot) for slot in range(tools)]
            calls = [
                _call(name, arguments(n) if arguments else _fitting(schemas.get(name), n), every)
                for name, n in called
            ]
            opening = say(_OPENING, chunks=len(_OPENING.split()), every=every)
            return reply(opening, interleave(*calls), usage(_PROMPT_TOKENS, 10 * tools))
        words = enumerate(islice(cycle(_ANSWER.split()), deltas), 1)
        pieces = (f"{word} " if number < deltas else word for number, word in words)
        return reply(say(*pieces, every=every), usage(_PROMPT_TOKENS, deltas))

    return answer


def _fitting(schema: JsonObject | None, position: int) -> JsonObject:
    """Return arguments of the required types; other constraints of a schema are ignored."""
    required = (schema or {}).get("required")
    properties = (schema or {}).get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return {}
    names = [name for name in required if isinstance(name, str)]
    return {name: _value(properties.get(name), name, position) for name in names}


def _value(schema: JsonValue, name: str, position: int) -> JsonValue:
    known = schema if isinstance(schema, dict) else {}
    choices = known.get("enum")
    if isinstance(choices, list) and choices:
        return choices[position % len(choices)]
    match known.get("type"):
        case "integer" | "number":
            return position
        case "boolean":
            return position % 2 == 0
        case "array":
            return []
        case "object":
            return {}
        case _:
            return f"{name} {position}"


def _call(name: str, arguments: JsonObject, every: float) -> Call:
    return call(name, arguments, chunks=_FRAGMENTS_PER_CALL, every=every)

"""A script that serves any number of sessions at once, each by what it has said so far.

It keeps no state: a conversation that ends with tool results gets its answer, any other gets calls
of the tools that it offers. The command line's demo and the benchmarks run against it.
"""

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Final

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing.replies import EndpointRequest, Reply, reply
from agent_actors.testing.script import Call, call, interleave, say, usage

# The prompt that the usage tells of; its size means nothing.
_PROMPT_TOKENS: Final = 120
_FRAGMENTS_PER_CALL: Final = 3
_OPENING: Final = "I will look that up."
_ANSWER: Final = "All tools have answered, and this is what their answers come to."

ONE_SENTENCE: Final = len(_ANSWER.split())
"""The deltas that say the answer once; with more it is said again and again."""


def demo_script(
    tools: int = 8,
    *,
    tool_names: Sequence[str] | None = None,
    arguments: Callable[[int], JsonObject] | None = None,
    deltas: int = ONE_SENTENCE,
    every: float = 0.01,
) -> Callable[[EndpointRequest], Reply]:
    """A script for `ScriptedEndpoint`: parallel tool calls, then an answer that streams.

    Args:
        tools: How many calls the first answer makes, fragments interleaved.
        tool_names: The tools to call, in turns; None: those that the request offers. With none
            to call, the answer comes at once.
        arguments: The arguments of a call, from its position; None: those that the tool's schema
            requires, made up, and `{"item": <position>}` where it requires none.
        deltas: The deltas of the answer's text, a word each; by default those of one sentence.
        every: Seconds between two deltas.

    Returns:
        A function of the request.
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
    """Arguments that a plain schema takes; what it demands beside types is not looked at."""
    required = (schema or {}).get("required")
    properties = (schema or {}).get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict) or not required:
        return {"item": position}
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

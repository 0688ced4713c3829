"""What an endpoint sends for a turn: the bytes of a clean answer, in either protocol.

Example:
    `body_of([say("Hello"), usage(3, 1)], "messages")`
"""

from agent_actors.domain.json import JsonObject
from agent_actors.testing._wire import render
from agent_actors.testing._wire_messages import render_messages
from agent_actors.testing.replies import EndpointRequest, Protocol, reply
from agent_actors.testing.script import Turn, steps_of


def body_of(turn: Turn, protocol: Protocol = "chat", *, stream: bool = True) -> bytes:
    """The body of an answer that says this turn.

    Pauses and the like are left out. Calls without an id get `call_0_<slot>`.

    Args:
        turn: What is said.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        stream: Whether it is a stream of events, or one JSON document.
    """
    asked = _asked(stream=stream)
    path = "/v1/messages" if protocol == "messages" else "/v1/chat/completions"
    request = EndpointRequest(0, 0, "POST", path, {}, asked, b"")
    make = render_messages if protocol == "messages" else render
    segments = make(reply(*steps_of(turn)), request)
    return b"".join(segment for segment in segments if isinstance(segment, bytes))


def _asked(*, stream: bool) -> JsonObject:
    """What the request says that both protocols look at."""
    options: JsonObject = {"include_usage": True}
    return {"model": "scripted", "stream": stream, "stream_options": options, "messages": []}

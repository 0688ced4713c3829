"""Render the response body of an endpoint without quirks, in either protocol.

Example:
    `body_of([say("Hello"), usage(3, 1)], "messages")`
"""

from agent_actors.domain.json import JsonObject
from agent_actors.testing._wire import render
from agent_actors.testing._wire_messages import render_messages
from agent_actors.testing.replies import EndpointRequest, Protocol, reply
from agent_actors.testing.script import Turn, steps_of


def body_of(turn: Turn, protocol: Protocol = "chat", *, stream: bool = True) -> bytes:
    """Return the body of a response that contains a turn.

    Pauses and similar steps are skipped. Calls without an id get `call_0_<slot>`.

    Args:
        turn: The turn.
        protocol: `chat` for chat completions, `messages` for Anthropic's.
        stream: True for a stream of events, False for one JSON document.
    """
    request_body = _request_body(stream=stream)
    path = "/v1/messages" if protocol == "messages" else "/v1/chat/completions"
    request = EndpointRequest(0, 0, "POST", path, {}, request_body, b"")
    make = render_messages if protocol == "messages" else render
    segments = make(reply(*steps_of(turn)), request)
    return b"".join(segment for segment in segments if isinstance(segment, bytes))


def _request_body(*, stream: bool) -> JsonObject:
    """Return the fields of a request that both protocols use."""
    options: JsonObject = {"include_usage": True}
    return {"model": "scripted", "stream": stream, "stream_options": options, "messages": []}

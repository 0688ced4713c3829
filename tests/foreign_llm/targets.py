"""A server with one of its protocols, and the ways to make it do what a test needs.

All three servers send the texts of `tiny_model`, so that the same test works with each of them.
aimock selects its response by the user's message, llmock by its most recent instructions, and
llama.cpp by whether the request offers tools. The other deeds are faults that a server can produce
itself.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import attrs
import httpx

from agent_actors import AgentOptions, Tool
from agent_actors.providers.anthropic import AnthropicMessages
from tests.foreign_llm.servers import ServerName
from tests.foreign_llm.tiny_model import ANSWER, CITIES, GREETING, LOOKING

Protocol = Literal["openai", "anthropic"]
Deed = Literal[
    "greet", "look", "think", "limit", "recover", "cut", "end", "stall", "length", "garble"
]

THOUGHT: Final = "Somebody is there, so I had better greet."
RETRY_AFTER: Final = 1
"""The shortest `retry-after` that a server can send, in seconds; the client waits for it."""

LONG: Final = 30.0
"""A time limit in seconds that is only reached if something hangs."""

_NEVER: Final = 600
_CALLS: Final = [("weather", f'{{"city": "{city}"}}') for city in CITIES]


def _aimock_fixtures() -> list[Mapping[str, object]]:
    greeting = {"content": GREETING}
    calls = [{"name": name, "arguments": arguments} for name, arguments in _CALLS]
    limit = {"message": "slow down", "type": "rate_limit_error"}
    stall = {"ttftMs": 0, "interChunkDelaysMs": [0, 0, 1000 * _NEVER], "totalDurationMs": 0}
    look = {"userMessage": "look"}
    return [
        {"match": {"userMessage": "greet"}, "response": greeting},
        {"match": look | {"hasToolResult": True}, "response": {"content": ANSWER}},
        {"match": look, "response": {"content": LOOKING, "toolCalls": calls}},
        {"match": {"userMessage": "think"}, "response": greeting | {"reasoning": THOUGHT}},
        {
            "match": {"userMessage": "limit"},
            "response": {"error": limit, "status": 429, "retryAfter": RETRY_AFTER},
        },
        {
            "match": {"userMessage": "recover", "sequenceIndex": 0},
            "response": {"error": limit, "status": 429, "retryAfter": RETRY_AFTER},
        },
        {"match": {"userMessage": "recover"}, "response": greeting},
        # Without a pause between the chunks, aimock destroys them together with the connection.
        {
            "match": {"userMessage": "cut"},
            "response": greeting,
            "truncateAfterChunks": 4,
            "latency": 10,
        },
        {"match": {"userMessage": "stall"}, "response": greeting, "recordedTimings": stall},
        {"match": {"userMessage": "length"}, "response": greeting | {"finishReason": "length"}},
        {
            "match": {"userMessage": "garble"},
            "response": greeting,
            "chaos": {"malformedRate": 1},
        },
    ]


FIXTURES: Final[Mapping[ServerName, Sequence[Mapping[str, object]]]] = {
    "aimock": [{"chunkSize": 6, **fixture} for fixture in _aimock_fixtures()]
}

_REPLY: Final = {"type": "reply", "text": GREETING}
_LLMOCK: Final[Mapping[str, Sequence[Mapping[str, object]]]] = {
    "greet": [_REPLY],
    "look": [
        {
            "type": "reply",
            "text": LOOKING,
            "tool_calls": [{"name": "weather", "arguments": {"city": city}} for city in CITIES],
        },
        {"type": "reply", "text": ANSWER},
    ],
    "limit": [{"type": "fail", "status": 429, "retry_after": RETRY_AFTER}],
    "recover": [{"type": "fail", "status": 429, "retry_after": RETRY_AFTER}, _REPLY],
    "cut": [_REPLY, {"type": "stream_fault", "kind": "disconnect", "after_chunks": 4}],
    "end": [_REPLY, {"type": "stream_fault", "kind": "truncate", "after_chunks": 4}],
    "stall": [
        _REPLY,
        {"type": "stream_fault", "kind": "stall", "after_chunks": 4, "stall_seconds": _NEVER},
    ],
    "length": [_REPLY | {"finish_reason": "length"}],
    "garble": [_REPLY, {"type": "stream_fault", "kind": "malformed", "after_chunks": 4}],
}


@attrs.frozen
class Target:
    """A server at an address, with one protocol.

    Attributes:
        server: The name of the server.
        protocol: The protocol to use.
        url: The server's address, without a path.
    """

    server: ServerName
    protocol: Protocol
    url: str

    async def prepare(self, *deeds: Deed) -> None:
        """Set up the server's next responses; only llmock needs this."""
        if self.server == "llmock":
            behaviors = [one for deed in deeds for one in _LLMOCK[deed]]
            async with httpx.AsyncClient(base_url=self.url) as client:
                (await client.post("/_llmock/reset")).raise_for_status()
                response = await client.post("/_llmock/scenario", json={"behaviors": behaviors})
                response.raise_for_status()

    async def findings(self) -> list[str]:
        """Return llmock's complaints about our requests since `prepare`."""
        async with httpx.AsyncClient(base_url=self.url) as client:
            verdict = (await client.get("/_llmock/verdict")).raise_for_status().json()
        return [f"{one['severity']}: {one['code']}" for one in verdict["findings"]]

    def options(
        self,
        *,
        url: str = "",
        tools: Sequence[Tool] = (),
        max_tokens: int = 200,
        idle_timeout: float = LONG,
        max_retries: int = 2,
        headers: Mapping[str, str] = {},
    ) -> AgentOptions:
        """Return options for this server, or for the proxy at `url` in front of it."""
        base = url or self.url
        provider = None
        if self.protocol == "anthropic":
            under = "/anthropic" if self.server == "llmock" else ""
            provider = AnthropicMessages(base_url=base + under, api_key="any", headers=headers)
        return AgentOptions(
            model="any",
            base_url=f"{base}/v1",
            provider=provider,
            tools=tuple(tools),
            max_tokens=max_tokens,
            idle_timeout=idle_timeout,
            first_token_timeout=LONG,
            max_retries=max_retries,
            headers=headers,
        )

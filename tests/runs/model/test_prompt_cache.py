"""`AgentOptions.prompt_cache`: cache marks for Anthropic, and a cache key for OpenAI."""

import json
from typing import Any

import pytest

from agent_actors import AgentOptions, open_runtime
from agent_actors.testing import EndpointRequest, ReplyTurn, ScriptedEndpoint, reply


def script(_: EndpointRequest) -> ReplyTurn:
    return reply("Hello.")


@pytest.mark.parametrize("prompt_cache", ["off", "auto", "1h"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_prompt_cache_reaches_the_endpoint(protocol: str, prompt_cache: Any) -> None:
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        options = AgentOptions(
            model="m",
            provider=protocol,
            api_key="k",
            base_url=endpoint.base_url,
            system_prompt="Be brief.",
            prompt_cache=prompt_cache,
        )
        await runtime.run("hi", options, session_id="s")
    body = json.dumps(endpoint.requests[0].body)
    if protocol == "openai":
        assert ('"prompt_cache_key": "s"' in body) is (prompt_cache != "off")
        assert "cache_control" not in body
    else:
        assert body.count('"cache_control"') == (0 if prompt_cache == "off" else 2)
        assert ('"ttl": "1h"' in body) is (prompt_cache == "1h")
        assert "prompt_cache_key" not in body

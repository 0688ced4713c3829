"""Recorded traffic: secrets, and the matching of requests."""

import json
from pathlib import Path

import httpx
import pytest

from agent_actors import AgentOptions, open_runtime, run, tool
from agent_actors.errors import ProviderError
from agent_actors.events import ResultEvent, ToolResult, UsageEvent
from agent_actors.testing import (
    EndpointScript,
    ScriptedEndpoint,
    body,
    call,
    check_events,
    disconnect_after,
    like,
    recorded_client,
    reply,
    status,
)

KEY = "sk-very-secret-8271"


@tool
def now() -> str:
    """Return the time."""
    return "12:00"


def agent(url: str, client: httpx.AsyncClient) -> AgentOptions:
    return AgentOptions(model="any", base_url=url, api_key=KEY, tools=[now], http_client=client)


async def test_played_traffic_equals_recorded_traffic(tmp_path: Path) -> None:
    """The endpoint is busy once, and breaks off once."""
    path = tmp_path / "new" / "traffic.json"
    again = {"retry-after": "0"}
    script: EndpointScript = [
        call("now"),
        status(503, headers=again),
        disconnect_after(250, reply("It is noon.")),
        "It is noon.",
    ]
    texts: list[str] = []
    async with ScriptedEndpoint(script) as endpoint:
        with recorded_client(record=path, live=True) as client:
            texts.append((await run("What time is it?", agent(endpoint.base_url, client))).text)
    with recorded_client(record=path) as client:
        options = agent(endpoint.base_url, client)
        async with open_runtime() as runtime, runtime.stream("What time is it?", options) as stream:
            events = [event async for event in stream]
    texts.append(stream.result.text)
    assert texts == ["It is noon."] * 2
    check_events(
        events, like(ToolResult, content="12:00"), like(UsageEvent, requests=3), like(ResultEvent)
    )


async def test_recording_contains_no_credentials(tmp_path: Path) -> None:
    """The endpoint repeats the key in its body and sets a cookie; the prompt contains the key."""
    path = tmp_path / "traffic.json"
    cookie = {"set-cookie": "session=cookie-secret-91"}
    script = [status(401, {"error": {"message": f'bad "{KEY}"'}}, headers=cookie)]
    async with ScriptedEndpoint(script) as endpoint:
        url = f"{endpoint.base_url}?token=query-secret-5"
        with recorded_client(record=path, live=True) as client, pytest.raises(ProviderError):
            await run(f"My key is {KEY}.", agent(url, client))
    text = path.read_text(encoding="utf-8")
    for secret in (KEY, "cookie-secret", "query-secret", "authorization"):
        assert secret not in text
    assert "My key is [redacted]." in text
    with recorded_client(record=path) as client, pytest.raises(ProviderError, match="bad"):
        await run(f"My key is {KEY}.", agent(url, client))


async def test_body_that_is_not_text_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "traffic.json"
    sent = b"\xff\x00\r\n" * 100
    async with ScriptedEndpoint([body(sent, "image/png")]) as endpoint:
        url = f"{endpoint.base_url}/chat/completions"
        for live in (True, False):
            with recorded_client(record=path, live=live) as client:
                response = await client.post(url, content=b"{}")
                assert (response.content, response.headers["content-type"]) == (sent, "image/png")


async def test_changed_request_names_the_difference(tmp_path: Path) -> None:
    path = tmp_path / "traffic.json"
    async with ScriptedEndpoint(["It is noon."]) as endpoint:
        with recorded_client(record=path, live=True) as client:
            await run("What time is it?", agent(endpoint.base_url, client))
    with recorded_client(record=path) as client:
        options = agent(endpoint.base_url, client)
        changed = r"body\.messages\[0\]\.content is 'And now\?', recorded: 'What time is it\?'"
        with pytest.raises(ProviderError, match=changed):
            await run("And now?", options)
        await run("What time is it?", options)
        with pytest.raises(ProviderError, match="all its responses have been used"):
            await run("What time is it?", options)


async def test_failed_block_keeps_old_recording(tmp_path: Path) -> None:
    path = tmp_path / "traffic.json"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(KeyError), recorded_client(record=path, live=True):
        raise KeyError
    assert path.read_text(encoding="utf-8") == "old"


def test_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "traffic.json"
    with pytest.raises(FileNotFoundError, match="make it with live=True"):
        recorded_client(record=path).__enter__()
    for content in ("{", json.dumps({"version": 2, "exchanges": []}), '{"exchanges": [1]}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match="is not a recording"):
            recorded_client(record=path).__enter__()

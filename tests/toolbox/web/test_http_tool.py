"""Tools that an HTTP server executes."""

import json

import httpx
import pytest

from agent_actors.errors import ConfigError
from agent_actors.toolbox.web import HTTPTool
from tests.toolbox.web.support import NONE, Answer, FakeContext, answering, call, raw
from tests.transport.wire_helpers import WireServer, ask

URL = "https://tools.example/call"


def remote(answer: Answer, seen: list[httpx.Request] | None = None) -> HTTPTool:
    client = answering({URL: answer}, [] if seen is None else seen)
    return HTTPTool("look", "Looks.", {"q": str}, URL, client=client, headers={"x-key": "k"})


def ok(value: object, status: int = 200) -> Answer:
    return (status, NONE, json.dumps(value).encode())


@pytest.mark.feature("WICK-024")
async def test_call_is_posted() -> None:
    seen: list[httpx.Request] = []
    context = FakeContext()
    output = await call(remote(ok({"result": "found"}), seen), {"q": "x"}, context)
    assert (output.data, output.is_error) == ("found", False)
    assert "found" in str(output.content)
    assert json.loads(seen[0].content) == {
        "name": "look",
        "arguments": {"q": "x"},
        "tool_call_id": "call-7",
        "session_id": "session-7",
    }
    assert seen[0].headers["x-key"] == "k"
    assert context.resources[0].hosts == ("tools.example",)


async def test_result_may_be_json() -> None:
    output = await call(remote(ok({"result": {"n": [1, None]}})), {"q": "x"})
    assert output.data == {"n": [1, None]}
    assert '{"n":[1,null]}' in str(output.content)


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_error_from_server_is_an_error_result(status: int) -> None:
    output = await call(remote(ok({"error": "no such thing"}, status)), {"q": "x"})
    assert output.is_error
    assert "no such thing" in str(output.content)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ok({"result": "x"}, 500), "HTTP status 500"),
        (ok({}, 302), "HTTP status 302"),
        (ok({"other": 1}), "`result` or `error`"),
        (ok([1]), "`result` or `error`"),
        ((200, NONE, b"not json"), "`result` or `error`"),
        ((200, NONE, b'{"result": "' + b"x" * 1_000_001), "too large"),
    ],
)
async def test_wrong_reply_is_an_error_result(answer: Answer, reason: str) -> None:
    output = await call(remote(answer), {"q": "x"})
    assert output.is_error
    assert reason in str(output.content)


@pytest.mark.parametrize("url", ["http://localhost/", "http://10.0.0.1/x", "nonsense", "file:///x"])
def test_url_is_checked_at_construction(url: str) -> None:
    with pytest.raises(ConfigError, match="tool 'look': callback_url"):
        HTTPTool("look", "Looks.", None, url)


@pytest.mark.parametrize("value", ["a\nb: c", "…"])
def test_header_is_checked_at_construction(value: str) -> None:
    with pytest.raises(ConfigError, match="header 'x-key'"):
        HTTPTool("look", "Looks.", None, URL, headers={"x-key": value})


async def test_private_server_needs_the_option() -> None:
    async with WireServer([ask, raw("200 OK", body=b'{"result": "local"}')]) as server:
        tool = HTTPTool("look", "Looks.", None, server.url, allow_private_networks=True)
        assert (await call(tool, {})).data == "local"


async def test_workspace_rule_binds_the_server() -> None:
    output = await call(remote(ok({"result": 1})), {"q": "x"}, FakeContext(network=("a.example",)))
    assert output.is_error
    assert "workspace" in str(output.content)


def test_annotations_are_set() -> None:
    tool = HTTPTool("look", "Looks.", None, URL)
    assert (tool.read_only, tool.destructive, tool.idempotent) == (False, True, False)
    assert tool.open_world
    tool = HTTPTool("look", "Looks.", None, URL, read_only=True)
    assert (tool.read_only, tool.destructive, tool.idempotent) == (True, False, True)

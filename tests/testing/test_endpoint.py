"""The endpoint as clients use it, and its counters."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from agent_actors.testing.demo import demo_script
from agent_actors.testing.endpoint import EndpointScript, ReplyTurn, ScriptedEndpoint
from agent_actors.testing.model import ScriptExhausted
from agent_actors.testing.replies import EndpointRequest, Reply, reply, silent, status
from agent_actors.testing.script import call, do, hang, pause, say, wait
from tests.testing.raw_client import PATIENCE, QUESTION, RawClient, ask, body_of, request_bytes


@asynccontextmanager
async def opened(
    script: EndpointScript,
) -> AsyncGenerator[tuple[ScriptedEndpoint, httpx.AsyncClient]]:
    async with (
        ScriptedEndpoint(script) as endpoint,
        httpx.AsyncClient(base_url=endpoint.base_url, timeout=PATIENCE) as client,
    ):
        yield endpoint, client


async def test_client_library_reads_a_streamed_response() -> None:
    async with opened(["Hello"]) as (endpoint, client):
        async with client.stream("POST", "/chat/completions", json=QUESTION) as response:
            assert response.headers["content-type"] == "text/event-stream"
            lines = [line async for line in response.aiter_lines() if line]
        assert '"content":"Hello"' in lines[1]
        assert lines[-1] == "data: [DONE]"
        assert endpoint.requests[0].body == QUESTION
        assert endpoint.requests[0].headers["content-type"] == "application/json"


async def test_client_library_reads_an_unstreamed_response() -> None:
    async with opened([[say("a"), call("t")]]) as (_, client):
        answer = (await client.post("/chat/completions", json={"model": "m"})).json()
        assert answer["choices"][0]["message"]["content"] == "a"
        assert answer["choices"][0]["finish_reason"] == "tool_calls"


async def test_replies_are_taken_in_order() -> None:
    script: list[ReplyTurn] = [
        reply("one"),
        "two",
        say("three"),
        [say("fo"), say("ur")],
        status(429),
    ]
    async with opened(script) as (_, client):
        answers = [await client.post("/chat/completions", json=QUESTION) for _ in script]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429]
        assert ["one" in answers[0].text, "two" in answers[1].text] == [True, True]
        assert ["three" in answers[2].text, "ur" in answers[3].text] == [True, True]


async def test_function_distinguishes_sessions() -> None:
    def script(request: EndpointRequest) -> Reply:
        return reply(f"you said {request.last_content}", pause(0.01))

    async with ScriptedEndpoint(script) as endpoint:
        answers: dict[str, bytes] = {}

        async def one(text: str) -> None:
            data, _ = await ask(endpoint, {"stream": True, "messages": [{"content": text}]})
            answers[text] = body_of(data)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(one, f"n{number}.")
        assert all(f"you said {text}".encode() in answer for text, answer in answers.items())
        assert len(answers) == endpoint.connections == 40
        assert endpoint.peak_live > 1
        await endpoint.wait_closed()


async def test_models_are_listed() -> None:
    async with ScriptedEndpoint([], models=["a", "b"]) as endpoint:
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{endpoint.base_url}/models")
        assert [model["id"] for model in answer.json()["data"]] == ["a", "b"]


async def test_unknown_path_uses_no_reply() -> None:
    async with opened(["a"]) as (endpoint, client):
        assert (await client.get("/chat/completions")).status_code == 404
        assert (await client.post("/embeddings", json={})).status_code == 404
        assert (await client.post("/chat/completions?x=1", json=QUESTION)).status_code == 200
        assert [request.path for request in endpoint.requests] == [
            "/v1/chat/completions",
            "/v1/embeddings",
            "/v1/chat/completions?x=1",
        ]


@pytest.mark.parametrize("content", [b"{", b"[]", b""])
async def test_non_object_body_is_refused(content: bytes) -> None:
    async with opened(["a"]) as (endpoint, client):
        answer = await client.post("/chat/completions", content=content)
        assert answer.status_code == 400
        assert endpoint.requests[0].content == content
        assert endpoint.requests[0].body == {}


async def test_exhausted_script_is_reported_twice() -> None:
    async def too_many() -> None:
        async with opened(["only"]) as (_, client):
            await client.post("/chat/completions", json=QUESTION)
            answer = await client.post("/chat/completions", json=QUESTION)
            assert answer.status_code == 500
            assert "has only 1 replies" in answer.text

    with pytest.raises(
        ScriptExhausted, match=r"has only 1 replies, but this is request 2.*'Hello\?'"
    ):
        await too_many()


async def test_function_error_is_raised_on_exit() -> None:
    def script(_: EndpointRequest) -> Reply:
        raise LookupError("no such session")

    async def run() -> None:
        async with opened(script) as (_, client):
            assert (await client.post("/chat/completions", json=QUESTION)).status_code == 500

    with pytest.raises(LookupError, match="no such session"):
        await run()


async def test_step_error_cuts_response_and_raises() -> None:
    def broken() -> None:
        raise LookupError("no such event")

    async def run() -> None:
        async with ScriptedEndpoint([reply("a", do(broken), "b")]) as endpoint:
            data, ending = await ask(endpoint)
            assert ending == "reset"
            assert b'"b"' not in data

    with pytest.raises(LookupError, match="no such event"):
        await run()


async def test_body_error_carries_script_failure_note() -> None:
    async def run() -> None:
        async with opened([]) as (_, client):
            await client.post("/chat/completions", json=QUESTION)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        await run()

    assert "the endpoint's script failed: ScriptExhausted(" in caught.value.__notes__[0]


async def test_cancelled_body_leaves_nothing() -> None:
    before = len(trio.lowlevel.current_task().child_nurseries)
    with trio.move_on_after(0.05) as scope:
        async with ScriptedEndpoint([hang()]) as endpoint, RawClient(endpoint) as client:
            await client.send(request_bytes())
            await trio.sleep_forever()

    assert scope.cancelled_caught
    assert len(trio.lowlevel.current_task().child_nurseries) == before


async def test_an_endpoint_is_opened_once() -> None:
    endpoint = ScriptedEndpoint([])
    async with endpoint:
        pass
    with pytest.raises(RuntimeError, match="opened only once"):
        await endpoint.__aenter__()


async def test_taken_port_is_an_error() -> None:
    async with ScriptedEndpoint([]) as first:
        with pytest.raises(OSError, match="in use"):
            await ScriptedEndpoint([], port=first.port).__aenter__()
    async with ScriptedEndpoint([], port=first.port) as again:
        assert again.base_url == first.base_url


async def test_endpoint_without_listener_refuses_connections() -> None:
    async with ScriptedEndpoint([], listening=False) as endpoint:
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", endpoint.port)


async def test_requests_and_responses_can_be_awaited() -> None:
    async with ScriptedEndpoint(lambda _: silent()) as endpoint:
        with trio.fail_after(PATIENCE):
            async with RawClient(endpoint) as first, RawClient(endpoint) as second:
                await first.send(request_bytes())
                await endpoint.wait_requests(1)
                await second.send(request_bytes())
                await endpoint.wait_live(2)
                assert endpoint.open_connections == 2
            await endpoint.wait_quiet()
            await endpoint.wait_closed()
        assert (endpoint.live_responses, endpoint.peak_live) == (0, 2)


async def test_idle_connections_are_open_but_quiet() -> None:
    async with opened(["a", "b"]) as (endpoint, client):
        for _ in range(2):
            await client.post("/chat/completions", json=QUESTION)
        with trio.fail_after(PATIENCE):
            await endpoint.wait_quiet()
        assert endpoint.open_connections == endpoint.connections == 1


async def test_script_waits_for_the_test() -> None:
    reached, go_on = trio.Event(), trio.Event()
    script = [reply("a", do(reached.set), wait(go_on), "b")]
    async with ScriptedEndpoint(script) as endpoint, RawClient(endpoint) as client:
        await client.send(request_bytes())
        with trio.fail_after(PATIENCE):
            await reached.wait()
        assert b'"b"' not in await client.read_until(b'"a"')
        go_on.set()
        assert b'"b"' in await client.read_until(b"[DONE]")


async def test_script_notices_leaving_client() -> None:
    never = trio.Event()
    async with ScriptedEndpoint([reply("a", wait(never), "b")]) as endpoint:
        async with RawClient(endpoint) as client:
            await client.send(request_bytes())
            await client.read_until(b'"a"')
        with trio.fail_after(PATIENCE):
            await endpoint.wait_closed()


async def test_a_thousand_streams_are_served_at_once() -> None:
    async with ScriptedEndpoint(demo_script(0, deltas=3, every=0.01)) as endpoint:
        ended: list[str] = []
        # 500 file descriptors on each side stay below the usual limit of 1,024.
        count = 480

        async def one() -> None:
            _, ending = await ask(endpoint)
            ended.append(ending)

        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one)
        with trio.fail_after(PATIENCE):
            await endpoint.wait_closed()
        assert ended == ["closed"] * count
        assert endpoint.connections == count


async def test_anthropic_protocol_serves_same_script() -> None:
    async with ScriptedEndpoint(["Hello", "Hello"]) as endpoint, httpx.AsyncClient() as client:
        url = f"{endpoint.base_url}/messages"
        asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        counted = await client.post(f"{url}/count_tokens", json=asked)
        whole = await client.post(url, json=asked)
        streamed = await client.post(url, json={**asked, "stream": True})
    assert counted.json()["input_tokens"] > 0
    assert whole.json()["content"] == [{"type": "text", "text": "Hello"}]
    assert streamed.headers["content-type"] == "text/event-stream"
    assert streamed.text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')

"""Endpoint faults over real sockets become typed errors, and the session stays usable."""

import attrs
import pytest
import trio

from agent_actors import AgentOptions, open_runtime
from agent_actors.domain.events import ResultEvent
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderProtocolError,
    ProviderStatusError,
)
from agent_actors.testing import (
    Reply,
    ScriptedEndpoint,
    body,
    comment,
    disconnect,
    disconnect_after,
    hang,
    hang_up,
    html,
    in_band_error,
    not_http,
    pause,
    reply,
    say,
    silent,
    status,
)
from tests.runs.helpers import check_history, check_quiet

# Seconds; short, but long enough for a machine that is busy with other tests.
SHORT = 0.3
LONG = 20.0


@attrs.frozen
class Fault:
    """A reply, and the error that it must cause."""

    answer: Reply
    error: type[ProviderError]
    words: tuple[str, ...] = ()


FAULTS = {
    "closed before an answer": Fault(hang_up(), ProviderConnectError),
    "reset before an answer": Fault(hang_up(reset=True), ProviderConnectError),
    "closed in the middle": Fault(reply(say("Hal"), disconnect()), ProviderError, ()),
    "reset in the middle": Fault(reply(say("Hal"), disconnect(reset=True)), ProviderError),
    "cut in the head": Fault(disconnect_after(10, reply(say("Hello"))), ProviderError),
    "401 with JSON": Fault(
        status(401, {"error": {"message": "wrong key"}}), ProviderStatusError, ("401", "wrong key")
    ),
    "404 with text": Fault(status(404, "no such model"), ProviderStatusError, ("404", "no such")),
    "429 with JSON": Fault(
        status(429, {"error": {"message": "slow down"}}, headers={"retry-after": "7"}),
        ProviderStatusError,
        ("429", "slow down"),
    ),
    "500 without a body": Fault(status(500, ""), ProviderStatusError, ("500", "empty body")),
    "502 with HTML": Fault(
        html("<html><title>Bad gateway</title><body>x</body></html>", status=502),
        ProviderStatusError,
        ("502", "Bad gateway"),
    ),
    "HTML at 200": Fault(html(), ProviderProtocolError, ("text/html",)),
    "not HTTP": Fault(not_http(), ProviderError),
    "an error inside a 200": Fault(
        reply(in_band_error("overloaded")), ProviderInBandError, ("overloaded",)
    ),
    "nothing in an answer": Fault(body(b"", content_type="text/event-stream"), ProviderError),
}


def options(
    endpoint: ScriptedEndpoint,
    *,
    first_token_timeout: float = LONG,
    idle_timeout: float = LONG,
    total_timeout: float = LONG,
) -> AgentOptions:
    return AgentOptions(
        model="m",
        base_url=endpoint.base_url,
        first_token_timeout=first_token_timeout,
        idle_timeout=idle_timeout,
        total_timeout=total_timeout,
        max_retries=0,  # a single attempt; test_model_calls.py tests retries
    )


@pytest.mark.feature("OAS-073")
@pytest.mark.parametrize("name", FAULTS)
async def test_fault_is_typed_and_session_continues(name: str) -> None:
    fault = FAULTS[name]
    async with ScriptedEndpoint([fault.answer, reply(say("Better."))]) as endpoint:
        async with open_runtime() as runtime:
            with pytest.raises(fault.error) as caught:
                await runtime.run("Go.", options(endpoint), session_id="s")
            for word in (endpoint.base_url, *fault.words):
                assert word in str(caught.value)
            check_quiet(runtime)
            result = await runtime.run("Again.", options(endpoint), session_id="s")
            assert result.text == "Better."
            check_history(result.messages)
        with trio.fail_after(LONG):
            await endpoint.wait_closed()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (silent(), "first_token"),
        (reply(hang()), "first_token"),
        (reply(comment(), pause(0.05), comment(), hang()), "first_token"),
        (reply(say("Hel"), hang()), "idle"),
        (
            reply(say("Hel"), *(step for _ in range(40) for step in (pause(0.05), comment()))),
            "idle",
        ),
        (reply(say(*"Hello, world" * 9, every=0.02)), "total"),
    ],
    ids=["silent", "head only", "comments only", "stalled", "comments after text", "endless"],
)
async def test_late_fault_names_waiting_time(answer: Reply, kind: str) -> None:
    deadline = {f"{kind}_timeout": SHORT}
    async with ScriptedEndpoint([answer, reply(say("Better."))]) as endpoint:
        async with open_runtime() as runtime:
            with trio.fail_after(LONG), pytest.raises(ProviderDeadlineError) as caught:
                await runtime.run("Go.", options(endpoint, **deadline), session_id="s")
            assert (caught.value.kind, caught.value.seconds) == (kind, SHORT)
            assert f"{kind}_timeout" in str(caught.value)
            result = await runtime.run("Again.", options(endpoint), session_id="s")
            assert result.text == "Better."
            check_history(result.messages)
        with trio.fail_after(LONG):
            await endpoint.wait_closed()


async def test_missing_end_mark_is_in_result() -> None:
    """Some chat completions endpoints never mark an end, so the response counts as complete."""
    data = b'data: {"choices":[{"delta":{"content":"Hal"}}]}\n\n'
    async with (
        ScriptedEndpoint([body(data, content_type="text/event-stream")]) as endpoint,
        open_runtime() as runtime,
        runtime.stream("Go.", options(endpoint), session_id="s") as stream,
    ):
        last = [event async for event in stream][-1]
        result = stream.result
        assert isinstance(last, ResultEvent)
        assert last.finish_reason == "unmarked"
        found = (result.text, result.stop_reason, result.finish_reason)
        assert found == ("Hal", "completed", "unmarked")


async def test_failure_reason_is_retried() -> None:
    chunk = b'{"choices":[{"delta":{"content":"Hal"},"finish_reason":"error"}]}'
    failed = body(b"data: " + chunk + b"\n\n", content_type="text/event-stream")
    async with (
        ScriptedEndpoint([failed, reply(say("Hello."))]) as endpoint,
        open_runtime() as runtime,
    ):
        retrying = options(endpoint).evolve(max_retries=1)
        async with runtime.stream("Go.", retrying, session_id="s") as stream:
            seen = [event.type async for event in stream]
        assert "attempt.restarted" in seen
        assert (stream.result.text, stream.result.finish_reason) == ("Hello.", "stop")


async def test_a_refused_connection_names_the_endpoint() -> None:
    async with ScriptedEndpoint([], listening=False) as endpoint, open_runtime() as runtime:
        with pytest.raises(ProviderConnectError, match=endpoint.base_url):
            await runtime.run("Go.", options(endpoint), session_id="s")
        assert not runtime.is_busy("s")


async def test_broken_response_text_is_not_kept() -> None:
    async with (
        ScriptedEndpoint(
            [reply(say("Hal"), disconnect(reset=True)), reply(say("Hello."))]
        ) as endpoint,
        open_runtime() as runtime,
    ):
        seen: list[str] = []
        with pytest.raises(ProviderError):
            async with runtime.stream("Go.", options(endpoint), session_id="s") as events:
                seen.extend([event.type async for event in events])
        history = runtime.history("s")
        assert history is not None
        assert [message.role for message in history] == ["user"]

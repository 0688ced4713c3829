"""Responses that the endpoint pauses: each request that continues one counts towards the limits."""

import json

import attrs
import pytest
import trio

from agent_actors import AgentOptions, UsageLimits, open_runtime
from agent_actors.abc import ByteSink, ExchangeStatistics, HttpRequest
from agent_actors.domain.events import UsageEvent
from agent_actors.domain.limits import NO_LIMITS
from agent_actors.domain.run import RunResult
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderInBandError
from agent_actors.model import AnthropicMessages
from tests.providers.anthropic.answers import begin, end, sse, text_block
from tests.runs.helpers import check_history

PAUSED = sse(begin(), *text_block("."), *end("pause_turn"))
WHOLE = sse(begin(), *text_block("!"), *end())
OVERLOADED = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}})


@attrs.define(eq=False)
class Bodies:
    """An exchange that answers each request with the next of these bodies."""

    bodies: list[bytes]
    asked: list[list[object]] = attrs.field(factory=list[list[object]])

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        await trio.lowlevel.checkpoint()
        self.asked.append(json.loads(request.body)["messages"])
        sink.start(200, {"content-type": "text/event-stream"})
        sink.feed(self.bodies.pop(0))

    def statistics(self) -> ExchangeStatistics:
        return ExchangeStatistics(live=0, begun=len(self.asked))

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@attrs.frozen
class Seen:
    """The outcome of a run: its result, its usage records, and the number of requests."""

    result: RunResult
    spent: list[UsageEvent]
    asked: int


async def seen(
    *bodies: bytes,
    limits: UsageLimits = NO_LIMITS,
    session_limits: UsageLimits = NO_LIMITS,
    prompts: int = 1,
    max_retries: int = 0,
) -> Seen:
    """Run an agent against these bodies once for each prompt, and return the last run."""
    exchange = Bodies([*bodies])
    options = AgentOptions(
        model="m",
        provider=AnthropicMessages(base_url="http://endpoint", exchange=exchange),
        limits=limits,
        session_limits=session_limits,
        max_retries=max_retries,
    )
    found: list[Seen] = []
    async with open_runtime() as runtime:
        for _ in range(prompts):
            async with runtime.stream("Hello?", options, session_id="s") as stream:
                events = [event async for event in stream]
            spent = [event for event in events if isinstance(event, UsageEvent)]
            found.append(Seen(stream.result, spent, len(exchange.asked)))
            check_history(stream.result.messages)
        [endpoint] = runtime.statistics().endpoints
        assert endpoint.attempts == len(exchange.asked)
    return found[-1]


async def test_each_continuation_is_a_request() -> None:
    run = await seen(PAUSED, PAUSED, WHOLE)
    assert (run.result.text, run.result.stop_reason) == ("..!", "completed")
    assert [(e.requests, e.usage) for e in run.spent] == [(3, Usage(9, 12))]


@pytest.mark.parametrize(
    ("limits", "what", "asked"),
    [
        (UsageLimits(requests=1), "requests", 1),
        (UsageLimits(requests=2), "requests", 2),
        (UsageLimits(total_tokens=8), "total_tokens", 2),
    ],
)
async def test_exhausted_budget_ends_with_partial_response(
    limits: UsageLimits, what: str, asked: int
) -> None:
    run = await seen(*[PAUSED] * 5, limits=limits)
    assert run.result.stop_reason == f"budget:{what}"
    assert (run.result.text, run.asked) == ("." * asked, asked)
    assert [(e.requests, e.usage.input_tokens) for e in run.spent] == [(asked, 3 * asked)]


async def test_endless_pause_has_own_stop_reason() -> None:
    run = await seen(*[PAUSED] * 9)
    assert (run.result.stop_reason, run.result.finish_reason, run.asked) == ("paused", "paused", 9)


async def test_message_without_end_is_retried() -> None:
    run = await seen(sse(begin(), *text_block("Hal")), WHOLE, max_retries=1)
    assert (run.result.text, run.result.stop_reason, run.asked) == ("!", "completed", 2)


async def test_session_counts_earlier_continuations() -> None:
    limits = UsageLimits(requests=4)
    run = await seen(PAUSED, WHOLE, PAUSED, PAUSED, WHOLE, session_limits=limits, prompts=2)
    assert run.result.stop_reason == "budget:session_requests"
    assert (run.result.text, run.asked) == ("..", 4)


async def test_exact_limit_ends_nothing() -> None:
    run = await seen(PAUSED, WHOLE, limits=UsageLimits(requests=2))
    assert (run.result.text, run.result.stop_reason) == (".!", "completed")


async def test_later_complete_response_ends_normally() -> None:
    run = await seen(PAUSED, WHOLE, limits=UsageLimits(requests=1), prompts=2)
    assert (run.result.text, run.result.stop_reason, run.asked) == ("!", "completed", 2)


async def test_failed_continuation_counts_as_request() -> None:
    with pytest.raises(ProviderInBandError):
        await seen(PAUSED, OVERLOADED)

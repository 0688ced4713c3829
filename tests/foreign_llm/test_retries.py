"""Servers from other projects fail once and then respond: the run gets the complete response."""

import time

import attrs
import pytest
import trio

from agent_actors import StopReason, open_runtime
from agent_actors.domain.events import AssistantDelta, AttemptRestarted, RunEvent
from tests.foreign_llm.fault_proxy import LAST_CHUNK, Fault, faulty
from tests.foreign_llm.targets import LONG, RETRY_AFTER, Deed, Protocol, Target
from tests.foreign_llm.test_faults import error_in_band, limits
from tests.foreign_llm.tiny_model import GREETING
from tests.runs.helpers import check_history, check_quiet

LLMOCK = [("llmock", "openai"), ("llmock", "anthropic")]


async def greeted(target: Target, deed: Deed, url: str) -> list[RunEvent]:
    """Return the result and the events of one run that succeeds after a retry."""
    with trio.fail_after(LONG):
        async with open_runtime() as runtime:
            async with runtime.stream(deed, target.options(url=url), session_id="s") as events:
                seen = [event async for event in events]
                result = events.result
            check_quiet(runtime)
    assert (result.text, result.stop_reason) == (GREETING, StopReason.COMPLETED)
    check_history(result.messages)
    assert [message.content for message in result.messages] == [deed, GREETING]
    return seen


def shown(events: list[RunEvent]) -> list[str]:
    """Return the text that each attempt showed."""
    texts = [""]
    for event in events:
        if isinstance(event, AttemptRestarted):
            texts.append("")
        elif isinstance(event, AssistantDelta):
            texts[-1] += event.text
    return texts


@pytest.mark.feature("OAS-113")
async def test_rate_limit_delay_is_observed(target: Target, nursery: trio.Nursery) -> None:
    await target.prepare("recover")
    url = await faulty(nursery, target.url, *limits(target, RETRY_AFTER))
    began = time.monotonic()
    seen = await greeted(target, "recover", url)
    assert time.monotonic() - began >= RETRY_AFTER
    assert shown(seen) == [GREETING]


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_broken_response_is_retried(target: Target, then: str, nursery: trio.Nursery) -> None:
    await target.prepare("greet", "greet")
    fault = Fault(5, more=40, then="close" if then == "close" else "reset")
    url = await faulty(nursery, target.url, fault)
    broken, whole = shown(await greeted(target, "greet", url))
    assert whole == GREETING
    assert GREETING.startswith(broken)
    assert 0 < len(broken) < len(GREETING)


async def test_overload_inside_200_is_retried(target: Target, nursery: trio.Nursery) -> None:
    await target.prepare("greet", "greet")
    fault = Fault(5, insert=error_in_band(target) + LAST_CHUNK, then="close")
    url = await faulty(nursery, target.url, fault)
    assert shown(await greeted(target, "greet", url))[-1] == GREETING


@pytest.mark.parametrize("target", LLMOCK, ids="-".join, indirect=True)
@pytest.mark.parametrize("deeds", [["recover"], ["cut", "greet"]], ids="-".join)
async def test_llmock_finds_no_client_errors(target: Target, deeds: list[Deed]) -> None:
    # llmock judges each attempt, its delay, and whether a retry was appropriate.
    await target.prepare(*deeds)
    await greeted(target, deeds[0], target.url)
    assert await target.findings() == []


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("target", [("aimock", "openai")], ids=["aimock"], indirect=True)
async def test_all_runs_finish_despite_refusals(target: Target, protocol: Protocol) -> None:
    # llmock refuses at random, so the number of requests varies; each refusal costs one request.
    target = attrs.evolve(target, protocol=protocol)
    options = target.options(headers={"x-aimock-chaos-ratelimit": "0.33"})
    texts: list[str] = []
    async with open_runtime() as runtime:
        async with trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                result = await runtime.run("greet", options, session_id=f"s{number}")
                texts.append(result.text)

            for number in range(20):
                nursery.start_soon(one, number)
        (endpoint,) = runtime.statistics().endpoints
    assert texts == [GREETING] * 20
    assert endpoint.attempts == 20 + endpoint.retries
    assert endpoint.retries == endpoint.failures == endpoint.pace.refusals

"""Faults of servers from other projects, and faults of a proxy in front of them.

Each fault raises a typed error within its time limit, and the session stays usable.
"""

import json

import attrs
import pytest
import trio

from agent_actors import StopReason, open_runtime
from agent_actors.domain.events import StreamNotice
from agent_actors.errors import (
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderProtocolError,
    ProviderStatusError,
)
from tests.foreign_llm.fault_proxy import LAST_CHUNK, Fault, answer, chunk, faulty
from tests.foreign_llm.servers import ServerName
from tests.foreign_llm.targets import LONG, RETRY_AFTER, Deed, Protocol, Target
from tests.foreign_llm.tiny_model import GREETING
from tests.runs.helpers import check_history, check_quiet

# Seconds; short, but long enough for a machine that is busy with other tests.
SHORT = 0.5

OVERLOADED = json.dumps({"message": "overloaded", "type": "overloaded_error"})


async def failure_of(
    target: Target, deed: Deed, *faults: Fault, nursery: trio.Nursery, idle: float = LONG
) -> ProviderError:
    """Return the error of one run of this deed; then check that the session still works."""
    await target.prepare(deed)
    url = await faulty(nursery, target.url, *faults)
    async with open_runtime() as runtime:
        once = target.options(url=url, idle_timeout=idle, max_retries=0)
        with trio.fail_after(LONG), pytest.raises(ProviderError) as caught:
            await runtime.run(deed, once, session_id="s")
        check_quiet(runtime)
        await target.prepare("greet")
        again = await runtime.run("greet", target.options(url=url), session_id="s")
        check_history(again.messages)
    assert again.text == GREETING
    assert url in caught.value.endpoint
    return caught.value


def error_in_band(target: Target) -> bytes:
    """Return an error in this protocol's format for errors after the response has begun."""
    if target.protocol == "openai":
        return chunk(b'data: {"error": %b}\n\n' % OVERLOADED.encode())
    return chunk(b'event: error\ndata: {"type": "error", "error": %b}\n\n' % OVERLOADED.encode())


def limits(target: Target, seconds: int) -> list[Fault]:
    """Return a fault that sends a rate limit if the server is llama.cpp, which has none."""
    body = json.dumps({"error": {"message": "slow down"}}).encode()
    headers = ["content-type: application/json", f"retry-after: {seconds}", "connection: close"]
    return [answer("429 Too Many Requests", headers, body)] if target.server == "llama.cpp" else []


@attrs.frozen
class Broken:
    fault: Fault
    error: type[ProviderError]


BROKEN = {
    "closed between two events": Broken(Fault(4, then="close"), ProviderConnectError),
    "closed within an event": Broken(Fault(4, more=40, then="close"), ProviderConnectError),
    "reset within an event": Broken(Fault(4, more=40, then="reset"), ProviderConnectError),
    "closed before the first event": Broken(Fault(0, then="close"), ProviderConnectError),
    "ended properly without an event": Broken(
        Fault(0, insert=LAST_CHUNK, then="close"), ProviderProtocolError
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_response_is_an_error(
    target: Target, name: str, nursery: trio.Nursery
) -> None:
    broken = BROKEN[name]
    error = await failure_of(target, "greet", broken.fault, nursery=nursery)
    assert type(error) is broken.error, error


@pytest.mark.parametrize("then", ["hold", "ping"])
async def test_silence_ends_at_its_deadline(
    target: Target, then: str, nursery: trio.Nursery
) -> None:
    fault = Fault(5, then="ping" if then == "ping" else "hold")
    error = await failure_of(target, "greet", fault, nursery=nursery, idle=SHORT)
    assert isinstance(error, ProviderDeadlineError)
    assert (error.kind, error.seconds) == ("idle", SHORT)


async def test_error_inside_200_is_raised(target: Target, nursery: trio.Nursery) -> None:
    fault = Fault(5, insert=error_in_band(target) + LAST_CHUNK, then="close")
    error = await failure_of(target, "greet", fault, nursery=nursery)
    assert isinstance(error, ProviderInBandError)
    assert "overloaded" in str(error)


async def test_rate_limit_reports_retry_delay(target: Target, nursery: trio.Nursery) -> None:
    error = await failure_of(target, "limit", *limits(target, RETRY_AFTER), nursery=nursery)
    assert isinstance(error, ProviderStatusError)
    assert error.status == 429
    assert error.headers["retry-after"] == str(RETRY_AFTER)
    assert error.body_message


OWN: list[tuple[tuple[ServerName, Protocol], Deed, type[ProviderError]]] = [
    (("aimock", "openai"), "cut", ProviderConnectError),
    (("aimock", "anthropic"), "cut", ProviderConnectError),
    (("aimock", "openai"), "stall", ProviderDeadlineError),
    (("aimock", "anthropic"), "stall", ProviderDeadlineError),
    (("aimock", "openai"), "garble", ProviderProtocolError),
    (("aimock", "anthropic"), "garble", ProviderProtocolError),
    (("llmock", "openai"), "cut", ProviderConnectError),
    (("llmock", "anthropic"), "cut", ProviderConnectError),
    (("llmock", "openai"), "stall", ProviderDeadlineError),
    (("llmock", "anthropic"), "stall", ProviderDeadlineError),
]


@pytest.mark.parametrize(
    ("target", "deed", "error"),
    OWN,
    ids=["-".join((*target, deed)) for target, deed, _ in OWN],
    indirect=["target"],
)
async def test_server_fault_is_a_typed_error(
    target: Target, deed: Deed, error: type[ProviderError], nursery: trio.Nursery
) -> None:
    raised = await failure_of(target, deed, nursery=nursery, idle=SHORT)
    assert type(raised) is error, raised


async def test_response_without_finish_reason_is_kept(
    target: Target, nursery: trio.Nursery
) -> None:
    # Some endpoints never send a finish reason; a truncated response looks like one of theirs.
    await target.prepare("end")
    # llmock truncates the response itself.
    early = [] if target.server == "llmock" else [Fault(5, insert=LAST_CHUNK, then="close")]
    url = await faulty(nursery, target.url, *early)
    async with open_runtime() as runtime:
        result = await runtime.run("greet", target.options(url=url), session_id="s")
        await target.prepare("greet")
        again = await runtime.run("greet", target.options(url=url), session_id="s")
    assert result.text
    assert result.text != GREETING
    assert GREETING.startswith(result.text)
    assert again.text == GREETING
    check_history(again.messages)


@pytest.mark.feature("OAS-072")
@pytest.mark.parametrize(
    "target", [("llmock", "openai"), ("llmock", "anthropic")], ids="-".join, indirect=True
)
async def test_invalid_json_line_is_skipped_and_reported(target: Target) -> None:
    await target.prepare("garble")
    async with (
        open_runtime() as runtime,
        runtime.stream("greet", target.options(), session_id="s") as events,
    ):
        seen = [event async for event in events]
        result = events.result
    (notice,) = [event.text for event in seen if isinstance(event, StreamNotice)]
    assert "no JSON was skipped" in notice
    assert result.stop_reason == StopReason.COMPLETED
    # Only the word on that line is lost.
    assert result.text != GREETING
    assert all(word in GREETING for word in result.text.split())
    assert result.text.endswith("until it is all said.")

"""Endpoints for the doctor's tests, and functions that examine an endpoint."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from agent_actors.cli.doctor.capture import CapturingExchange
from agent_actors.cli.doctor.probe_request import EndpointProbe
from agent_actors.cli.doctor.probes import Examination
from agent_actors.cli.doctor.report import Check, Report
from agent_actors.profiles.profile import ProviderProfile
from agent_actors.profiles.resolve import OPENAI_COMPATIBLE, resolve
from agent_actors.testing import (
    EndpointRequest,
    Reply,
    Step,
    body,
    call,
    reply,
    say,
    status,
    think,
    usage,
)
from agent_actors.testing.conformance.quirks_chat import CHAT_QUIRKS
from agent_actors.transport.backends.select import make_exchange
from tests.cli.helpers import PATIENCE

KEY: Final = "sk-right"
PLAIN: Final[tuple[Step, ...]] = (
    think("They want", " numbers."),
    say("one, ", "two, ", "three, ", "four, ", "five."),
)
ONE: Final[tuple[Step, ...]] = (
    say("I look."),
    call("get_weather", {"city": "Paris"}, split=[3, 6], id="id-one"),
)
TWO: Final[tuple[Step, ...]] = (
    call("get_weather", {"city": "Paris"}, split=[3], id="id-two"),
    call("get_weather", {"city": "Tokyo"}, split=[3], id="id-three"),
)
LAST: Final[tuple[Step, ...]] = (say("It is ", "sunny ", "in Paris."),)

Render = Callable[[tuple[Step, ...]], Reply]


def as_reply(steps: tuple[Step, ...]) -> Reply:
    """Return the steps in OpenAI's format, in small writes."""
    return body(CHAT_QUIRKS.distorted((*steps, usage(7, 9))).body, framing="chunked", split=[60])


def as_messages(steps: tuple[Step, ...]) -> Reply:
    """Return the steps in Anthropic's format, in small writes."""
    return reply(*steps, usage(7, 9), split=[60])


def good(request: EndpointRequest, render: Render | None = None) -> Reply:
    """Respond as an endpoint that does all an agent needs; `render` formats the responses."""
    if request.model.startswith("no-such-model"):
        return status(404, {"error": {"message": "there is no such model"}})
    keys = (request.headers.get("authorization", ""), request.headers.get("x-api-key", ""))
    if any("wrong-key" in key for key in keys):
        return status(401, {"error": {"message": "this is no key of ours"}})
    usual = as_messages if request.protocol == "messages" else as_reply
    return (render or usual)(steps_for(request))


def steps_for(request: EndpointRequest) -> tuple[Step, ...]:
    """Return the model's response."""
    if request.new_results:
        return LAST
    if not request.tool_names:
        return PLAIN
    return TWO if "Tokyo" in request.last_content else ONE


async def examined(
    base_url: str,
    *,
    profile: ProviderProfile = OPENAI_COMPATIBLE,
    model: str = "scripted",
    timeout: float = PATIENCE,  # noqa: ASYNC109 - the parameter under test
    connect_timeout: float = PATIENCE,
    tell: Callable[[str], None] = lambda name: None,
) -> Report:
    """Examine the endpoint at this URL."""
    target = resolve(profile, {}, base_url=base_url, model=model, api_key=KEY)
    exchange = CapturingExchange(make_exchange(base_url, connect_timeout=connect_timeout))
    try:
        with trio.fail_after(PATIENCE):
            return await Examination(
                EndpointProbe(target, exchange, timeout=timeout), tell
            ).examine()
    finally:
        await exchange.aclose()


def checks_of(report: Report) -> Mapping[str, Check]:
    """Return the checks by name."""
    return {check.name: check for check in report.checks}


def statuses(report: Report) -> dict[str, str]:
    """Return the status of each check by its name."""
    return {check.name: check.status for check in report.checks}


@asynccontextmanager
async def answering(
    head: str, content: bytes = b"", *, nothing: bool = False, hold: bool = False
) -> AsyncGenerator[str]:
    """Run a server that sends this response to every request, or holds the connection; yield its
    URL.
    """
    answer = f"{head}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n".encode()

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            received = b""
            while b"\r\n\r\n" not in received:
                piece = await stream.receive_some()
                if not piece:
                    return
                received += piece
            if hold:
                await trio.sleep_forever()
            if not nothing:
                await stream.send_all(answer + content)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, serve, listeners))
        yield f"http://127.0.0.1:{port}/v1"
        nursery.cancel_scope.cancel()

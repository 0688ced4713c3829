"""Findings do not contain the key, and incomplete responses are reported."""

import pytest

from agent_actors.cli.doctor.capture import CapturingExchange
from agent_actors.cli.doctor.probe_request import EndpointProbe
from agent_actors.profiles.resolve import OPENAI_COMPATIBLE, resolve
from agent_actors.testing import Reply, ScriptedEndpoint, disconnect, hang, reply
from agent_actors.transport.backends.select import make_exchange
from tests.cli.doctor.helpers import examined


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("sk-a.b1234", "no sk-a.b1234, sk-aXb1234", "no [redacted], sk-aXb1234"),
        ("sk-a.b1234-0123", "no sk-a.b1234-0123x", "no [redacted]x"),
        ("", "bad key", "bad key"),
        (None, "bad key", "bad key"),
    ],
)
async def test_key_is_removed_without_touching_words(
    key: str | None, text: str, expected: str
) -> None:
    exchange = CapturingExchange(make_exchange("http://localhost"))
    try:
        target = resolve(OPENAI_COMPATIBLE, {}, base_url="http://localhost", api_key=key)
        assert EndpointProbe(target, exchange, timeout=1).redacted(text).startswith(expected)
    finally:
        await exchange.aclose()


@pytest.mark.parametrize("answer", [reply("One ", hang()), reply("One ", disconnect())])
async def test_broken_response_has_no_finish_reason(answer: Reply) -> None:
    async with ScriptedEndpoint(lambda _: answer) as endpoint:
        report = await examined(endpoint.base_url, timeout=0.2)
        await endpoint.wait_closed()

    assert report.observed_quirks == ()

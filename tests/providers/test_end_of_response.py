"""The end of a response if the endpoint sends no `[DONE]` and stays connected."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from agent_actors.abc import ByteSink, ExchangeStatistics, HttpRequest
from agent_actors.domain.model import ModelDelta
from agent_actors.domain.usage import Usage
from agent_actors.errors import ProviderInBandError
from agent_actors.providers.end_of_response import GRACE
from agent_actors.providers.openai_chat import OpenAIChat
from tests.providers.openai_chat.answers import DONE, REQUEST, calls, chunk, entry, made, sse, text
from tests.providers.sinks import CollectingSink

BASE = "http://localhost:1234/v1"
COUNTED: dict[str, object] = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}


def part(*chunks: object) -> bytes:
    return sse(*chunks, done=False)


class Lingering:
    """An exchange with pauses between its reads, whose connection then stays open."""

    def __init__(self, *script: bytes | float) -> None:
        self.script = script

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        sink.start(200, {"content-type": "text/event-stream"})
        for step in self.script:
            if isinstance(step, float):
                await trio.sleep(step)
                continue
            if sink.full:
                await sink.wait_room()
            assert isinstance(step, bytes)
            sink.feed(step)
            if sink.done:
                return
        await trio.sleep_forever()

    def statistics(self) -> ExchangeStatistics:
        return ExchangeStatistics(live=0, begun=1)

    async def aclose(self) -> None:
        pass


async def answered(*script: bytes | float) -> tuple[str, Usage, float]:
    """Return the text, the usage, and the seconds until the response was complete."""
    chat = OpenAIChat(base_url=BASE, exchange=Lingering(*script))
    began = trio.current_time()
    found = await chat.complete(REQUEST)
    return found.text, found.usage, trio.current_time() - began


async def test_quirk_32_open_connection_waits_briefly(
    autojump_clock: MockClock,
) -> None:
    text_, usage, seconds = await answered(part(text("Hel"), text("lo"), chunk({}, "stop")))
    assert (text_, usage.estimated, seconds) == ("Hello", True, GRACE)


async def test_calls_are_complete_after_grace_period(autojump_clock: MockClock) -> None:
    exchange = Lingering(part(calls(entry(0, "a", "now", "")), chunk({}, "tool_calls")))
    found = await OpenAIChat(base_url=BASE, exchange=exchange).complete(REQUEST)
    assert made(found) == [("a", "now", {})]


async def test_late_usage_ends_the_response(
    autojump_clock: MockClock,
) -> None:
    text_, usage, seconds = await answered(
        part(text("Hello"), chunk({}, "stop")), GRACE / 2, part(COUNTED)
    )
    assert (text_, usage, seconds) == ("Hello", Usage(3, 4), GRACE / 2)


async def test_comments_do_not_prolong_the_grace(autojump_clock: MockClock) -> None:
    pings: Sequence[bytes | float] = [b": ping\n\n", GRACE * 0.4] * 5
    text_, _, seconds = await answered(part(text("Hello", "stop")), *pings)
    assert (text_, seconds) == ("Hello", GRACE)


async def test_quirk_31_continuing_endpoint_is_awaited(
    autojump_clock: MockClock,
) -> None:
    text_, _, seconds = await answered(
        part(text("Hel", "stop")), 1.0, part(text("lo", "stop")), 10 * GRACE, part(text("!")), DONE
    )
    assert (text_, seconds) == ("Hello!", 1.0 + 10 * GRACE)


async def test_usage_with_choices_ends_nothing(
    autojump_clock: MockClock,
) -> None:
    empty_delta = {**text(""), "usage": COUNTED["usage"]}
    body = part(text("Hel"), COUNTED, text("lo", "stop"), empty_delta, COUNTED, text("lost"))
    assert (await answered(body))[0] == "Hello"
    assert (await answered(part(text("Hel"), COUNTED, text("lo")), DONE))[0] == "Hello"


async def test_quirk_31_usage_does_not_end_continuation(
    autojump_clock: MockClock,
) -> None:
    body = part(text("Hel", "stop"), text("lo"), COUNTED, text("!"))
    assert (await answered(body, 10 * GRACE, DONE))[0] == "Hello!"


async def test_an_error_within_the_grace_is_raised(autojump_clock: MockClock) -> None:
    failed = part({"error": {"message": "overloaded"}})
    with pytest.raises(ProviderInBandError, match="overloaded"):
        await answered(part(text("Hel", "stop")), 0.1, failed)


async def test_slow_reader_pauses_the_grace_period(autojump_clock: MockClock) -> None:
    class OncePerRead(CollectingSink):
        def feed(self, deltas: Sequence[ModelDelta]) -> None:
            super().feed(deltas)
            self.room = trio.Event()

    sink = OncePerRead.roomy()
    chat = OpenAIChat(
        base_url=BASE, exchange=Lingering(part(text("Hello", "stop")), b": ping\n\n", part(COUNTED))
    )
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _() -> None:
            assert (await chat.stream(REQUEST, sink)).usage == Usage(3, 4)

        await trio.sleep(10 * GRACE)
        assert (sink.waited, len(sink.batches)) == (1, 1)
        sink.room.set()


async def test_cancelled_caller_gets_no_response(autojump_clock: MockClock) -> None:
    with trio.move_on_after(GRACE / 2) as scope:
        await answered(part(text("Hello", "stop")))
    assert scope.cancelled_caught

"""The four deadlines of a model call, as a caller sees them, in both protocols.

Most tests run over an exchange in memory, under a virtual clock, so that the waits are known to the
second. The tests at the end check the same promises over real sockets.
"""

import json
import math
import socket
from collections.abc import Callable, Iterator
from itertools import chain, cycle, islice
from typing import TypeAlias

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, RunStream, open_runtime
from agent_actors.abc import (
    ByteExchange,
    ByteSink,
    ExchangeStatistics,
    HttpRequest,
    ModelProvider,
)
from agent_actors.domain.events import AssistantDelta
from agent_actors.domain.json import JsonValue
from agent_actors.errors import DeadlineKind, ProviderDeadlineError
from agent_actors.model import AnthropicMessages, ChatDialect, OpenAIChat
from agent_actors.testing import (
    Reply,
    ScriptedEndpoint,
    comment,
    hang,
    pause,
    raw,
    reply,
    say,
    silent,
)
from agent_actors.testing.replies import Comment, Raw
from tests.runs.helpers import check_history, check_quiet

# The seconds to wait after the previous data, and the data.
Fed: TypeAlias = tuple[float, bytes]

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
COMMENT = b": keep-alive\n\n"
LONG = 20.0
# The default of the options, which the first test checks.
CONNECT = 10.0


@attrs.define(eq=False)
class Fake:
    """A `ByteExchange` that sends these pieces; a script without an end hangs."""

    script: Callable[[], Iterator[Fed]]
    fed: int = 0

    async def exchange(self, request: HttpRequest, sink: ByteSink) -> None:
        sink.start(200, {"content-type": "text/event-stream"})
        for seconds, data in self.script():
            await trio.sleep(seconds)
            sink.feed(data)
            self.fed += 1
            if sink.done:
                return
        await trio.sleep_forever()

    def statistics(self) -> ExchangeStatistics:
        return ExchangeStatistics(live=0, begun=0)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def sse(event: JsonValue) -> bytes:
    name = event.get("type") if isinstance(event, dict) else None
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


@attrs.frozen
class Wire:
    """A protocol: its provider, and the data that its endpoints send."""

    provider: Callable[[ByteExchange], ModelProvider]
    opening: bytes
    text: bytes
    silence: tuple[bytes, ...]
    payload: tuple[bytes, ...]
    end: bytes


def chunk(**delta: JsonValue) -> bytes:
    return sse({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def fragment(index: int, arguments: str, **named: JsonValue) -> dict[str, JsonValue]:
    return {"index": index, **named, "function": {"name": "f", "arguments": arguments}}


def block(index: int, **begun: JsonValue) -> bytes:
    return sse({"type": "content_block_start", "index": index, "content_block": dict(begun)})


def delta(index: int, **added: JsonValue) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": dict(added)})


CHAT = Wire(
    lambda exchange: OpenAIChat(base_url="http://endpoint/v1", exchange=exchange),
    opening=chunk(role="assistant", content=""),
    text=chunk(content="Hello"),
    silence=(
        COMMENT,
        b"\n\n",
        b": x\n",
        b"data: not json\n\n",
        chunk(),
        chunk(content=""),
        chunk(reasoning_content=""),
    ),
    payload=(
        chunk(content="!"),
        chunk(reasoning_content="hm"),
        chunk(tool_calls=[fragment(0, "{", id="a")]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]),
    ),
    end=sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    + b"data: [DONE]\n\n",
)
SEARCH: dict[str, JsonValue] = {"type": "server_tool_use", "id": "s", "name": "web_search"}
MESSAGES = Wire(
    lambda exchange: AnthropicMessages(base_url="http://endpoint", exchange=exchange),
    opening=sse({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}})
    + block(0, type="text", text=""),
    text=delta(0, type="text_delta", text="Hello"),
    silence=(
        COMMENT,
        PING,
        b"event: ping\ndata:\n\n",
        delta(0, type="text_delta", text=""),
        delta(7, type="input_json_delta", partial_json=""),
        sse({"type": "content_block_stop", "index": 0}),
        sse({"type": "something.new"}),
    ),
    payload=(
        delta(0, type="text_delta", text="!"),
        delta(0, type="citations_delta", citation={"cited_text": "x"}),
        block(1, type="thinking", thinking="hm"),
        delta(1, type="signature_delta", signature="sealed"),
        block(2, type="redacted_thinking", data="hidden"),
        block(3, **SEARCH, input={}),
        delta(3, type="input_json_delta", partial_json='{"query": '),
        delta(3, type="input_json_delta", partial_json='"trio"}'),
        block(4, type="web_search_tool_result", tool_use_id="s", content=[]),
        delta(4, type="something_delta", more="of it"),
    ),
    end=sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    + sse({"type": "message_stop"}),
)
WIRES = {"chat completions": CHAT, "messages": MESSAGES}
each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES.keys())


async def missed(
    wire: Wire,
    script: Callable[[], Iterator[Fed]],
    *,
    idle_timeout: float = 60.0,
    total_timeout: float = math.inf,
) -> tuple[ProviderDeadlineError, float]:
    """Return the error that ends a run and the elapsed time; then use the session again."""
    provider = wire.provider(Fake(script))
    options = AgentOptions(
        model="m",
        provider=provider,
        max_retries=0,
        idle_timeout=idle_timeout,
        total_timeout=total_timeout,
    )
    fine = wire.provider(Fake(lambda: iter([(0, wire.opening + wire.text + wire.end)])))
    async with open_runtime() as runtime:
        began = trio.current_time()
        with pytest.raises(ProviderDeadlineError) as caught:
            await runtime.run("Go.", options, session_id="s")
        waited = trio.current_time() - began
        check_quiet(runtime)
        result = await runtime.run("Again.", attrs.evolve(options, provider=fine), session_id="s")
        assert result.text == "Hello"
        check_history(result.messages)
    return caught.value, waited


def repeated(*pieces: bytes, every: float) -> Iterator[Fed]:
    # Much longer than any deadline here, but not forever, so that a missed deadline fails the test.
    for piece in islice(cycle(pieces), int(1000 / every)):
        yield every, piece


# --- under a virtual clock ------------------------------------------------------------------------


def test_default_deadlines() -> None:
    deadlines = AgentOptions(model="m", base_url="http://endpoint/v1").deadlines
    assert (deadlines.connect, deadlines.first_token, deadlines.idle) == (CONNECT, 120, 60)
    assert deadlines.total == math.inf


@each_wire
async def test_late_start_misses_first_token_deadline(
    wire: Wire, autojump_clock: MockClock
) -> None:
    for script in (
        lambda: iter(()),
        lambda: iter([(1.0, wire.opening)]),
        lambda: repeated(COMMENT, every=7),
        lambda: chain([(1.0, wire.opening)], repeated(*wire.silence, every=7)),
    ):
        error, waited = await missed(wire, script)
        assert (error.kind, error.seconds, waited) == ("first_token", 120, 120)
        assert "waited 120 s for the first token (option first_token_timeout)" in str(error)


@each_wire
async def test_pings_alone_miss_idle_deadline(wire: Wire, autojump_clock: MockClock) -> None:
    for sign in wire.silence:
        # Each sign alone, also with a period so long that the last sign comes just before the
        # deadline.
        for every in (1.0, 7.0, 59.0):
            begun = [(1.0, wire.opening), (4.0, wire.text)]
            error, waited = await missed(wire, lambda: chain(begun, repeated(sign, every=every)))  # noqa: B023
            assert (error.kind, error.seconds, waited) == ("idle", 60, 65), (sign, every)
            assert "waited 60 s for the next token (option idle_timeout)" in str(error)


@each_wire
async def test_response_data_keeps_stream_alive(wire: Wire, autojump_clock: MockClock) -> None:
    for number, piece in enumerate(wire.payload):
        before = [(0.0, wire.opening), (0.0, wire.text), *((0.0, p) for p in wire.payload[:number])]
        begun = [*before, (59.0, piece)]
        error, waited = await missed(wire, lambda: iter(begun))  # noqa: B023
        assert (error.kind, waited) == ("idle", 119), piece


async def test_withheld_inline_call_keeps_stream_alive(
    autojump_clock: MockClock,
) -> None:
    def provider(exchange: ByteExchange) -> ModelProvider:
        dialect = ChatDialect(text_tool_calls="tags")
        return OpenAIChat(base_url="http://endpoint/v1", exchange=exchange, dialect=dialect)

    wire = attrs.evolve(CHAT, provider=provider)
    held = ["<tool_call>", '{"name": "f", "arguments": {"a": "', "long", "and long", "and long"]
    error, waited = await missed(wire, lambda: iter([(50.0, chunk(content=one)) for one in held]))
    assert (error.kind, waited) == ("idle", 5 * 50 + 60)


@each_wire
async def test_hidden_content_counts_as_first_token(wire: Wire, autojump_clock: MockClock) -> None:
    for piece in wire.payload:
        error, waited = await missed(wire, lambda: iter([(0, wire.opening), (100, piece)]))  # noqa: B023
        assert (error.kind, waited) == ("idle", 160), piece


@each_wire
async def test_total_deadline_is_off_by_default(wire: Wire, autojump_clock: MockClock) -> None:
    def slowly() -> Iterator[Fed]:
        yield 0, wire.opening
        for _ in range(200):
            yield 50, wire.text
        yield 50, wire.end

    options = AgentOptions(model="m", provider=wire.provider(Fake(slowly)))
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
    assert (result.text, result.duration) == ("Hello" * 200, 201 * 50)
    error, waited = await missed(wire, slowly, total_timeout=1234)
    assert (error.kind, error.seconds, waited) == ("total", 1234, 1234)
    assert "waited 1234 s for the end of the response (option total_timeout)" in str(error)


# --- over real sockets ----------------------------------------------------------------------------


def agent(
    protocol: str,
    endpoint: str,
    *,
    connect_timeout: float = CONNECT,
    first_token_timeout: float = LONG,
    idle_timeout: float = LONG,
    total_timeout: float = math.inf,
) -> AgentOptions:
    chat = protocol == "chat"
    return AgentOptions(
        model="m",
        base_url=endpoint if chat else endpoint.removesuffix("/v1"),
        provider=None if chat else "anthropic",
        api_key="k",
        max_retries=0,
        connect_timeout=connect_timeout,
        first_token_timeout=first_token_timeout,
        idle_timeout=idle_timeout,
        total_timeout=total_timeout,
    )


async def watch(stream: RunStream, seen: list[float]) -> None:
    """Read to the end, and record the times at which text arrived."""
    async with stream as events:
        async for event in events:
            seen += [trio.current_time()] if isinstance(event, AssistantDelta) else []


each_protocol = pytest.mark.parametrize("protocol", ["chat", "messages"])


@each_protocol
@pytest.mark.parametrize("sign", [comment(), raw(PING)], ids=["comments", "pings"])
async def test_pings_do_not_extend_idle_deadline(
    protocol: str, sign: Comment | Raw, mock_clock: MockClock
) -> None:
    # Data in flight on a socket must arrive before the clock jumps.
    mock_clock.autojump_threshold = 0.01
    steps = [step for _ in range(40) for step in (pause(9), sign)]
    async with ScriptedEndpoint([reply(say("Hel"), *steps)]) as endpoint:
        async with open_runtime() as runtime:
            options = agent(protocol, endpoint.base_url, idle_timeout=60)
            seen: list[float] = []
            with pytest.raises(ProviderDeadlineError) as caught:
                await watch(runtime.stream("Go.", options, session_id="s"), seen)
            assert (caught.value.kind, trio.current_time() - seen[-1]) == ("idle", 60)
            check_quiet(runtime)
        await endpoint.wait_closed()


@each_protocol
@pytest.mark.parametrize(
    ("answer", "kind", "waits"),
    [
        (silent(), "first_token", 120),
        (reply(hang()), "first_token", 120),
        (reply(raw(PING), pause(100), raw(PING), pause(100)), "first_token", 120),
        (reply(say(*"Hello, world" * 9, every=5)), "total", 200),
    ],
    ids=["silent", "head only", "pings only", "endless"],
)
async def test_deadline_error_names_waiting_time(
    protocol: str, answer: Reply, kind: DeadlineKind, waits: float, mock_clock: MockClock
) -> None:
    mock_clock.autojump_threshold = 0.01
    async with ScriptedEndpoint([answer]) as endpoint:
        async with open_runtime() as runtime:
            options = agent(protocol, endpoint.base_url, **{f"{kind}_timeout": waits})
            with pytest.raises(ProviderDeadlineError) as caught:
                await runtime.run("Go.", options, session_id="s")
            assert (caught.value.kind, caught.value.seconds) == (kind, waits)
            assert f"waited {waits:g} s for " in str(caught.value)
            assert f"(option {kind}_timeout)" in str(caught.value)
            check_quiet(runtime)
        await endpoint.wait_closed()


@each_protocol
@pytest.mark.parametrize("seconds", [CONNECT, 3.5])
async def test_connect_deadline_names_waiting_time(
    protocol: str, seconds: float, mock_clock: MockClock
) -> None:
    mock_clock.autojump_threshold = 0.01
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # accepts connections, but never responds
        port = deaf.getsockname()[1]
        options = agent(protocol, f"https://127.0.0.1:{port}/v1", connect_timeout=seconds)
        async with open_runtime() as runtime:
            began = trio.current_time()
            with pytest.raises(ProviderDeadlineError) as caught:
                await runtime.run("Go.", options)
            waited = trio.current_time() - began
            check_quiet(runtime)
    assert (caught.value.kind, caught.value.seconds) == ("connect", seconds)
    assert waited == seconds
    assert f"waited {seconds:g} s for a connection (option connect_timeout)" in str(caught.value)

"""Token statistics, the text for Prometheus, and failures of an instrumentation."""

import logging
import re
from typing import Any, Final, NoReturn, Self

import pytest
from trio.testing import MockClock

from agent_actors import AgentOptions, Prices, TokenStats, open_runtime
from agent_actors.abc import Instrumentation
from agent_actors.abc.operations import Operation
from agent_actors.errors import ConfigError
from agent_actors.telemetry import prometheus_text
from agent_actors.testing import ScriptedModel, Turn, call, say, usage
from tests.telemetry.helpers import BUSY, family

LABELS: Final = r'\{([a-z]+="([^"\\]|\\.)*",?)+\}'
SAMPLE: Final = re.compile(rf"[a-z_]+({LABELS})? (\d+(\.\d+)?(e-?\d+)?|[+-]Inf)")


@pytest.mark.feature("ASDK-100", "ASDK-098")
async def test_callback_gets_tokens_of_each_call() -> None:
    seen: list[TokenStats] = []
    turns: list[Turn] = [
        [say("Hi."), usage(10, 5, cache_read_tokens=4)],
        [say("Again."), usage(20, 1)],
    ]
    options = AgentOptions(
        model="m",
        provider=ScriptedModel(turns),
        token_callback=seen.append,
        prices=Prices(input=1.0, output=2.0),
    )
    async with open_runtime() as runtime:
        first = await runtime.run("Go.", options, session_id="s")
        assert len(seen) == 1
        await runtime.run("Go.", options, session_id="s")
    stats = seen[0]
    assert (stats.session_id, stats.run_id, stats.model) == ("s", first.run_id, "m")
    assert (stats.input_tokens, stats.output_tokens, stats.total_tokens) == (10, 5, 15)
    assert (stats.cache_read_tokens, stats.cache_creation_tokens) == (4, 0)
    assert stats.cost == first.cost
    assert [one.total_tokens for one in seen] == [15, 21]


@pytest.mark.feature("ASDK-091", "ASDK-099")
async def test_session_stats_add_up_over_runs() -> None:
    turns: list[Turn] = [
        [call("gone"), usage(10, 5)],
        [say("A."), usage(1, 1)],
        [say("B."), usage(20, 1)],
    ]
    options = AgentOptions(
        model="m", provider=ScriptedModel(turns), prices=Prices(input=1.0, output=2.0)
    )
    async with open_runtime() as runtime:
        results = [await runtime.run("Go.", options, session_id="s") for _ in range(2)]
        stats = await runtime.session_stats("s")
        assert await runtime.session_stats("unknown") is None
    assert stats is not None
    assert stats.usage == results[0].usage + results[1].usage
    assert (stats.usage.input_tokens, stats.usage.output_tokens) == (31, 7)
    assert (stats.requests, stats.tool_calls) == (3, 1)
    assert stats.cost == pytest.approx(sum(result.cost or 0 for result in results))


async def test_fallback_model_is_named() -> None:
    seen: list[TokenStats] = []
    fallback = AgentOptions(model="spare", provider=ScriptedModel(["Hello."]))
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([[say("Hello, hello."), BUSY]]),
        fallbacks=[fallback],
        max_retries=0,
        token_callback=seen.append,
    )
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
    assert [one.model for one in seen] == ["m", "spare"]
    assert seen[0].usage.estimated
    assert sum(one.total_tokens for one in seen) == result.usage.total_tokens


async def test_failing_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(stats: TokenStats) -> NoReturn:
        raise ValueError("no thanks")

    options = AgentOptions(model="m", provider=ScriptedModel(["Hi."]), token_callback=refuse)
    with caplog.at_level(logging.WARNING):
        async with open_runtime() as runtime:
            result = await runtime.run("Go.", options)
    assert result.text == "Hi."
    assert "token_callback raised ValueError" in caplog.text
    assert "no thanks" in caplog.text


def test_callback_must_be_a_function() -> None:
    bad: Any = {"token_callback": 1}
    with pytest.raises(ConfigError, match="token_callback must be a function"):
        AgentOptions(model="m", provider=ScriptedModel([]), **bad)


async def test_statistics_are_prometheus_text() -> None:
    model = ScriptedModel(lambda request: "Hi.", name='a "model"\n')
    other = ScriptedModel(lambda request: "Hi.", name='a "model"\n')
    async with open_runtime() as runtime:
        await runtime.run("Go.", AgentOptions(model="m", provider=model))
        await runtime.run("Go.", AgentOptions(model="m", provider=other))
        text = prometheus_text(runtime.statistics())
    lines = text.splitlines()
    assert "# TYPE agent_actors_runs gauge" in lines
    assert "# TYPE agent_actors_runs_started_total counter" in lines
    assert "agent_actors_runs_started_total 2" in lines
    assert r'agent_actors_endpoints_attempts_total{endpoint="a \"model\"\n"} 1' in lines
    assert r'agent_actors_endpoints_attempts_total{number="2",endpoint="a \"model\"\n"} 1' in lines
    assert "agent_actors_tools_threads_used 0" in lines
    samples = [line for line in lines if not line.startswith("#")]
    assert len({sample.rpartition(" ")[0] for sample in samples}) == len(samples)
    assert [sample for sample in samples if not SAMPLE.fullmatch(sample)] == []


class Broken:
    """An instrumentation whose methods fail."""

    def observe(self, operation: Operation) -> NoReturn:
        raise ZeroDivisionError("observe")

    def count_tokens(self, stats: TokenStats) -> None:
        raise ZeroDivisionError("count")


class Torn:
    """An observation whose methods fail, apart from `__enter__`."""

    @property
    def request_headers(self) -> NoReturn:
        raise ZeroDivisionError("headers")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> NoReturn:
        raise ZeroDivisionError("exit")

    def note_first_token(self) -> NoReturn:
        raise ZeroDivisionError("first token")

    def note_outcome(self, outcome: object) -> NoReturn:
        raise ZeroDivisionError("outcome")


class Tearing:
    """An instrumentation whose observations fail."""

    def observe(self, operation: Operation) -> Torn:
        return Torn()

    def count_tokens(self, stats: TokenStats) -> None:
        raise ZeroDivisionError("count")


@pytest.mark.parametrize("broken", [Broken(), Tearing()])
async def test_broken_instrumentation_affects_no_run(
    broken: Instrumentation, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_runtime(instrumentation=broken) as runtime:
            result = await runtime.run("Go.", family(runtime))
    assert result.text == "3, and rain."
    assert "the instrumentation failed" in caplog.text

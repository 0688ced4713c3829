"""The counters of a demo and the figures computed from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentError
from agent_actors.cli.demo.tally import (
    DemoReport,
    Tally,
    ToolGauge,
    faults_of,
    percentile,
    report_of,
)


def test_gauge_counts_parallel_calls() -> None:
    gauge = ToolGauge()
    with gauge.ran():
        with gauge.ran(), gauge.ran():
            assert (gauge.running, gauge.calls) == (3, 0)
        with gauge.ran():
            assert gauge.running == 2

    assert (gauge.running, gauge.peak, gauge.calls) == (0, 3, 4)


def test_failed_tool_is_neither_running_nor_counted() -> None:
    gauge = ToolGauge()
    with pytest.raises(ZeroDivisionError), gauge.ran():
        raise ZeroDivisionError

    assert (gauge.running, gauge.peak, gauge.calls) == (0, 1, 0)


def test_a_report_is_rounded() -> None:
    tally = Tally(
        ToolGauge(calls=8, peak=4),
        sessions=2,
        runs=3,
        deltas=100,
        first_tokens=[0.25, 0.0123456],
        busy=1,
        seconds=3.0,
    )

    assert report_of(tally) == DemoReport(2, 3, 8, 4, 100, 33.3, 12.3, 250.0, 1, 0, 0)
    assert report_of(Tally()) == DemoReport(0, 0, 0, 0, 0, 0.0, None, None, 0, 0, 0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_percentile_is_smallest_sufficient_value(values: list[float], percent: float) -> None:
    found = percentile(values, percent)

    assert found in values
    below = [value for value in values if value < found]
    up_to = [value for value in values if value <= found]
    assert len(up_to) >= len(values) * percent / 100 - 1e-9
    assert not below or len(below) < len(values) * percent / 100 + 1e-9


def test_empty_samples_have_no_percentile() -> None:
    assert percentile([], 50) is None


@pytest.mark.parametrize(
    ("tally", "faults"),
    [
        (Tally(runs=2), []),
        (Tally(runs=1), ["1 of 2 runs did not finish"]),
        (
            Tally(failures=[AgentError("on fire"), AgentError("too")]),
            ["2 of 2 runs did not finish; the first failure: on fire"],
        ),
        (
            Tally(runs=2, let_in=3, leaked_tasks=4, leaked_connections=5),
            [
                "3 second runs were accepted on a busy session",
                "4 tasks outlived the runtime",
                "5 connections outlived the runtime",
            ],
        ),
    ],
)
def test_leaks_and_wrong_counts_are_faults(tally: Tally, faults: list[str]) -> None:
    assert faults_of(tally, runs=2) == faults

"""A report can be shown on a terminal, in a pipe and as JSON."""

import io
import json
import tomllib

import attrs
import pytest
import trio
import trio.testing
from rich.console import Console

from agent_actors.cli.doctor.findings import ObservedQuirk
from agent_actors.cli.doctor.recommendations import Recommendation
from agent_actors.cli.doctor.render import lines, show, show_progress
from agent_actors.cli.doctor.report import Check, Figures, Report, profile_text, toml

REPORT = Report(
    endpoint="http://host/v1",
    provider="vllm",
    protocol="openai",
    model="m[bold]",
    checks=(
        Check("reachable", "works", "HTTP 200"),
        Check("models", "note", "no [red]list\x1b[2J"),
        Check("answer", "works", "Hello."),
        Check("tool call", "works", "f()"),
        Check("tool result", "works", "Sunny."),
        Check("wrong key", "untried", ""),
    ),
    figures=Figures(12.34, 5, 3, 100.0, 50.0),
    observed_quirks=(ObservedQuirk(2, "two", '{"a": 1}'), ObservedQuirk(41, "forty-one", "x")),
    expected=(2,),
    recommendations=(
        Recommendation("option", "first_token_timeout", 200.0, "slow"),
        Recommendation("profile", "cumulative", True, "it repeats"),
        Recommendation("profile", "refuses", ("seed", "top_p"), "refused"),
    ),
)
BROKEN = attrs.evolve(
    REPORT,
    checks=(Check("reachable", "works", ""), Check("answer", "fails", "HTTP 500")),
    figures=Figures(),
    observed_quirks=(),
    recommendations=(),
)


def shown(report: Report, *, terminal: bool) -> str:
    out = io.StringIO()
    show(Console(file=out, force_terminal=terminal, width=100, color_system=None), report)
    return out.getvalue()


def test_pipe_gets_plain_lines() -> None:
    text = shown(REPORT, terminal=False)

    assert text.splitlines() == list(lines(REPORT))
    assert text.splitlines() == [
        "m[bold] at http://host/v1 (vllm, openai)",
        "works   * reachable       HTTP 200",
        "note      models          no [red]list\ufffd[2J",
        "works   * answer          Hello.",
        "works   * tool call       f()",
        "works   * tool result     Sunny.",
        "untried   wrong key",
        "figure    time to the first token: 12.3 ms",
        "figure    deltas per second: 100.0",
        "figure    tokens per second: 50.0",
        'quirk     2 (known) two: {"a": 1}',
        "quirk     41 forty-one: x",
        "set       option first_token_timeout = 200: slow",
        "set       profile cumulative = true: it repeats",
        'set       profile refuses = ["seed", "top_p"]: refused',
        "[mine]",
        'extends = "vllm"',
        "cumulative = true",
        'refuses = ["seed", "top_p"]',
        "An agent can use this endpoint.",
    ]


def test_long_lines_stay_unbroken_in_pipes() -> None:
    long = attrs.evolve(BROKEN, checks=(Check("answer", "fails", "word " * 60),))
    assert len(shown(long, terminal=False).splitlines()) == 3


def test_terminal_gets_tables() -> None:
    text = shown(REPORT, terminal=True)

    for expected in (
        "m[bold]",
        "no [red]list\ufffd[2J",
        "2 (known)",
        "12.3 ms",
        "cumulative = true",
    ):
        assert expected in text
    assert 'extends = "vllm"' in text
    assert "An agent can use this endpoint." in text
    # The table's own styles are the only escapes.
    assert "\x1b[2J" not in text


def test_missing_capability_is_named() -> None:
    for terminal in (True, False):
        text = shown(BROKEN, terminal=terminal)
        assert "cannot use this endpoint; missing: answer." in text.replace("\n", " ")
        assert "[mine]" not in text


def test_usable_is_all_that_is_needed() -> None:
    assert REPORT.usable
    assert not BROKEN.usable


def test_programs_get_json() -> None:
    found = json.loads(json.dumps(REPORT.as_json()))

    assert (found["usable"], found["checks"][0]["needed"]) == (True, True)
    assert found["figures"]["deltas_per_s"] == 100.0
    assert found["quirks"][0] == {"number": 2, "name": "two", "seen": '{"a": 1}'}
    assert found["set"][2]["value"] == ["seed", "top_p"]


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("vllm", {"extends": "vllm", "cumulative": True, "refuses": ["seed", "top_p"]}),
        (
            "openai-compatible",
            {"base_url": "http://host/v1", "cumulative": True, "refuses": ["seed", "top_p"]},
        ),
    ],
)
def test_proposed_profile_is_valid_toml(provider: str, expected: object) -> None:
    text = profile_text(attrs.evolve(REPORT, provider=provider))

    assert tomllib.loads(text) == {"mine": expected}
    assert profile_text(BROKEN) == ""
    assert toml('a "quoted" \\ name') == '"a \\"quoted\\" \\\\ name"'


async def test_progress_shows_current_check(autojump_clock: trio.testing.MockClock) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60)
    with trio.move_on_after(1):
        await show_progress(console, lambda: "tool call")
    assert "trying: tool call" in out.getvalue()

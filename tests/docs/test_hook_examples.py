"""The hook patterns do what their page says when they run as programs."""

from pathlib import Path

import pytest

from tests import program_helpers

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


def output_of(name: str) -> list[str]:
    example = str(EXAMPLES / f"{name}.py")
    return program_helpers.output_of(["-W", "error", example]).splitlines()


@pytest.mark.feature("OAS-106")
def test_gate_denies_dangerous_calls_only() -> None:
    assert output_of("hook_gate") == [
        "rm -rf build -> the call was refused: 'rm -rf' is not allowed here",
        "make clean -> (as if it had run: make clean)",
        "gate in before_tool: deny, 'rm -rf' is not allowed here",
    ]


@pytest.mark.feature("OAS-107")
def test_the_sandbox_keeps_files_below_its_folder() -> None:
    assert output_of("hook_sandbox") == ["etc/hosts.txt", "notes.txt"]


@pytest.mark.feature("OAS-108")
def test_audit_log_orders_requests_before_actions() -> None:
    kinds = [line.split(" ")[0] for line in output_of("hook_audit")]
    tools = ["tool.asked", "tool.begun", "tool.ended"]
    assert kinds == ["session.start", "prompt", *tools, "run.ended", "session.end"]


@pytest.mark.feature("OAS-109")
def test_sanitizer_cleans_or_refuses_prompts() -> None:
    assert output_of("hook_prompt") == [
        r"completed ['How is the weather?\n\nAnswer in one sentence.', 'It is fine weather.']",
        "blocked:user_prompt_submit []",
    ]


@pytest.mark.feature("OAS-110")
def test_together_each_does_its_part() -> None:
    lines = output_of("hook_together")
    assert "2 model calls, 1 tool call" in lines
    assert lines[-2:] == [
        "/sandbox/etc/motd -> 4039 characters",
        "/app/.env -> 30 characters",
    ]
    assert sum('"event": "tool.begun"' in line for line in lines) == 1


def test_observers_see_each_record_once() -> None:
    lines = output_of("observe_events")
    assert "s: - notification" in lines
    assert "s: - app.deployed" in lines
    late = [line for line in lines if line.startswith("late:")]
    assert late == ["late: 6 tool.result", "late: 9 result", "late: 14 result", "late: shutdown 3"]


def test_event_of_tool_is_in_log() -> None:
    assert output_of("record_events") == ["note.txt: Buy milk."]

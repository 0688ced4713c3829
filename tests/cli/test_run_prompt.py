"""The parts of a run that are shown, and their streams; in this process."""

import sys
import tempfile
from pathlib import Path

import pytest

from agent_actors import AgentOptions
from agent_actors.cli.outcome import complete
from agent_actors.cli.run_prompt import OutputOptions, run_prompt
from agent_actors.codec.events import loads_event
from agent_actors.domain.events import AssistantDelta, ErrorEvent
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.testing import (
    EndpointRequest,
    EndpointScript,
    ScriptedEndpoint,
    finish,
    hang,
    hang_up,
    html,
    reply,
    say,
    status,
    think,
    usage,
)
from tests.cli.helpers import pipe, terminal

ALL = OutputOptions(thinking=True, usage=True)


async def show(
    script: EndpointScript, shown: OutputOptions = ALL, *, run_timeout: float = 60.0
) -> int:
    """Run the prompt as the command does."""
    async with ScriptedEndpoint(script) as endpoint:
        options = AgentOptions(
            model="m", base_url=endpoint.base_url, run_timeout=run_timeout, max_retries=0
        )
        return await complete(lambda: run_prompt("Hi", options, shown))


async def test_thinking_and_usage_go_to_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    tokens = usage(12, 34, cache_read_tokens=5, reasoning_tokens=6)
    turn = reply(think("Hm,", " so."), say("Yes", " or no\n"), tokens)
    assert await show([turn]) == 0
    assert capfd.readouterr() == (
        "Yes or no\n",
        "Hm, so.\nusage: 12 tokens in, 34 out, 5 from the cache, 6 of reasoning\n",
    )

    assert await show([turn], OutputOptions()) == 0
    assert capfd.readouterr() == ("Yes or no\n", "")


async def test_estimated_tokens_are_marked_as_estimated(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert await show([reply("12345678", transform=without_usage)]) == 0
    assert capfd.readouterr().err.endswith(" tokens in, 2 out, estimated\n")


def without_usage(chunks: list[JsonObject]) -> list[JsonValue]:
    """Return the chunks of an endpoint that does not count tokens."""
    return [{k: v for k, v in one.items() if k != "usage"} for one in chunks if one["choices"]]


async def test_thoughts_after_text_begin_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        await show([reply(say("One"), think("Hm"), say("two"))], OutputOptions(thinking=True)) == 0
    )
    assert capfd.readouterr() == ("One\ntwo\n", "Hm\n")


async def test_thinking_and_text_use_separate_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both = tmp_path / "both"
    with both.open("a") as stream:  # noqa: ASYNC230 - a few bytes in a local file
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        turn = reply(think("Hm"), say("One"), think("so"), say("two"))
        assert await show([turn], OutputOptions(thinking=True)) == 0

    assert both.read_text() == "Hm\nOne\nso\ntwo\n"


async def test_thoughts_are_dim_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as (stderr, shown):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert await show([reply(think("Hm"), "Yes")], OutputOptions(thinking=True)) == 0
        assert shown() == "\x1b[2mHm\x1b[0m\r\n"


async def test_truncated_response_is_noted(capfd: pytest.CaptureFixture[str]) -> None:
    assert await show([reply(say("Once upon"), finish("length"))], OutputOptions()) == 0
    assert capfd.readouterr() == ("Once upon\n", "note: the response is incomplete: length\n")


async def test_response_cannot_steer_terminal_or_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J\x9b\u202ecod\u200f\r\n"
    turn = reply(think(evil), say(evil))
    assert await show([turn], OutputOptions(thinking=True)) == 0
    assert capfd.readouterr() == ("\ufffd[2J\ufffd\ufffdcod\n",) * 2

    assert await show([turn], OutputOptions(as_json=True)) == 0
    out = capfd.readouterr().out
    assert not set(out) & set(evil) - set("[2Jcod\n")
    events = [loads_event(line, strict=True) for line in out.splitlines()]
    assert [one.text for one in events if isinstance(one, AssistantDelta)] == [evil]


async def test_piped_text_is_appended_to_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[JsonValue] = []

    def script(request: EndpointRequest) -> str:
        prompts.append(request.last_content)
        return "Yes"

    for text in ("one\ntwo\n", " \n", ""):
        with pipe() as (source, target):
            monkeypatch.setattr(sys, "stdin", source)
            target.write(text)
            target.close()
            assert await show(script) == 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.write("a file")
        file.seek(0)
        monkeypatch.setattr(sys, "stdin", file)
        assert await show(script) == 0
    assert prompts == ["Hi\n\none\ntwo", "Hi", "Hi", "Hi\n\na file"]


async def test_silent_pipe_does_not_hold_prompt(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agent_actors.cli.run_prompt._PATIENCE", 0.01)
    with pipe() as (source, _target):
        monkeypatch.setattr(sys, "stdin", source)
        assert await show(["Yes"], OutputOptions()) == 0
    out, err = capfd.readouterr()
    assert (out, err.startswith("note: no input arrived on stdin within 0.01 s")) == ("Yes\n", True)


async def test_terminal_or_closed_stdin_is_not_read(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with terminal() as (stream, _):
        for stdin in (stream, None):
            monkeypatch.setattr(sys, "stdin", stdin)
            assert await show(["Yes"], OutputOptions()) == 0
            assert capfd.readouterr() == ("Yes\n", "")


@pytest.mark.parametrize(
    ("script", "out", "expected"),
    [
        ([html()], "", "http://127.0.0.1"),
        ([hang_up()], "", "http://127.0.0.1"),
        ([reply(say("Hel"), hang())], "Hel\n", "did not finish within 0.2 s"),
    ],
)
async def test_failure_is_one_line_after_output(
    script: EndpointScript, out: str, expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await show(script, run_timeout=0.2) == 1

    captured = capfd.readouterr()
    assert captured.out == out
    assert captured.err.startswith("error: ")
    assert expected in captured.err
    assert captured.err.count("\n") == 1


async def test_failed_run_ends_with_error_event(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert await show([status(400, "on fire")], OutputOptions(as_json=True)) == 1

    out, err = capfd.readouterr()
    assert isinstance(loads_event(out.splitlines()[-1], strict=True), ErrorEvent)
    assert "on fire" in err

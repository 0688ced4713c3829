"""The commands, run in this process: their arguments and exit statuses."""

import io
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from rich.console import Console

from agent_actors import AgentOptions
from agent_actors.cli import app, main
from agent_actors.cli.demo import command
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.run_prompt import OutputOptions, SessionLocation


@pytest.fixture(autouse=True)
def no_endpoint_of_a_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AGENT_ACTORS_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["bogus"], 'Unknown command "bogus"'),
        (["run"], "PROMPT"),
        (["run", "hi", "--bogus"], "--bogus"),
        (["run", "hi", "--max-tokens", "many"], "--max-tokens"),
        (["run", "hi", "--model", "m"], "or set AGENT_ACTORS_BASE_URL"),
        (["run", "hi", "--model", "m"], "pass --base-url URL or --provider NAME"),
        (["run", "hi", "--provider", "olama"], "error: there is no provider profile 'olama'; did"),
        (["run", "hi", "--provider", "ollama"], "error: model is missing; pass the model's name"),
        (["run", "hi", "--base-url", "http://x"], "pass --model NAME, or set AGENT_ACTORS_MODEL"),
        (["run", "hi", "--base-url", "x", "--model", "m"], "base_url must begin with http"),
        (["run", " ", "--base-url", "http://x", "--model", "m"], "the prompt must not be blank"),
        (
            ["run", "hi", "--base-url", "http://x", "--model", "m", "--timeout", "0"],
            "error: run_timeout must be above 0",
        ),
        (["demo", "--sessions", "0"], "--sessions"),
        (["demo", "--model", "m"], "--model requires --base-url"),
        (["demo", "--provider", "ollama"], "--provider requires --model"),
        (["demo", "--provider", "olama", "--model", "m"], "no provider profile 'olama'"),
        (["demo", "--base-url", "http://x"], "--base-url requires --model"),
    ],
)
def test_wrong_usage_is_one_line_status_2(
    arguments: list[str], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert expected in err
    assert err.count("\n") == 1


def test_help_is_a_success(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0

    out, err = capfd.readouterr()
    assert "Usage: agent-actors run [OPTIONS] PROMPT" in out
    assert err == ""
    assert main([]) == 0
    assert "Usage: agent-actors COMMAND" in capfd.readouterr().out


@attrs.frozen
class Asked:
    """The arguments that the `run` command passes on."""

    prompt: str
    options: AgentOptions
    shown: OutputOptions
    place: SessionLocation


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    found: list[Asked] = []

    async def answer(
        prompt: str,
        options: AgentOptions,
        shown: OutputOptions,
        place: SessionLocation,
        previews: EditPreviews,
    ) -> int:
        assert previews.root is None
        found.append(Asked(prompt, options, shown, place))
        return 0

    monkeypatch.setattr(app, "run_prompt", answer)
    return found


def test_run_passes_every_option_on(asked: list[Asked]) -> None:
    where = ["--base-url", "http://x/v1", "--model", "m", "--api-key", "k", "--provider", "vllm"]
    how = ["--system", "Be brief.", "--max-tokens", "7", "--temperature", "0", "--timeout", "2"]
    what = ["--show-thinking", "--usage", "--json", "--api-key-header", "x-key"]
    session = ["--session", "s", "--store", "kept"]
    assert main(["run", *where, *how, *what, *session, "--", "-5 + 3?"]) == 0

    (one,) = asked
    options = one.options
    assert one.prompt == "-5 + 3?"
    assert (options.base_url, options.model) == ("http://x/v1", "m")
    assert (options.api_key, options.api_key_header) == ("k", "x-key")
    assert options.provider == "vllm"
    assert options.system_prompt == "Be brief."
    assert (options.max_tokens, options.temperature, options.run_timeout) == (7, 0, 2)
    assert one.shown == OutputOptions(thinking=True, usage=True, as_json=True)
    assert one.place == SessionLocation("s", "kept")


def test_options_override_environment_variables_in_run(
    asked: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BASE_URL", "MODEL", "API_KEY"):
        monkeypatch.setenv(f"AGENT_ACTORS_{name}", f"http://{name}")
    assert main(["run", "-"]) == 0
    assert main(["run", "Hi", "--model", "mine"]) == 0

    first, second = asked
    assert (first.prompt, first.shown, first.place) == ("-", OutputOptions(), SessionLocation())
    assert (first.options.base_url, first.options.model) == ("http://BASE_URL", "http://MODEL")
    assert first.options.api_key == "http://API_KEY"
    # Options that the user does not set are not sent.
    assert (first.options.max_tokens, first.options.temperature) == (None, None)
    assert second.options.model == "mine"


def test_run_finds_the_endpoint_of_a_provider(
    asked: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    assert main(["run", "Hi", "--provider", "anthropic", "--model", "claude"]) == 0

    resolved = asked[0].options.resolved
    assert resolved is not None
    assert (resolved.profile.name, resolved.api_key) == ("anthropic", "sk-1")


def test_arguments_default_to_those_of_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["agent-actors", "--version"])

    assert main() == 0
    assert capfd.readouterr().out.count(".") >= 2


@pytest.mark.parametrize("missing", ["cyclopts", "rich.live"])
def test_missing_extra_is_one_line(
    missing: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("app", "demo.command", "demo.display"):
        monkeypatch.delitem(sys.modules, f"agent_actors.cli.{name}")
    monkeypatch.setitem(sys.modules, missing, None)

    assert main(["--help"]) == 1

    _, err = capfd.readouterr()
    assert err.startswith(f"error: agent-actors needs {missing}; ")
    assert err.endswith("pip install 'agent-actors[cli]'\n")
    assert err.count("\n") == 1


def test_other_missing_module_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agent_actors.cli.app")
    monkeypatch.setitem(sys.modules, "agent_actors.cli.demo.command", None)

    with pytest.raises(ModuleNotFoundError, match="agent_actors"):
        main(["--help"])


@pytest.mark.usefixtures("quick")
def test_a_demo_ends_with_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--sessions", "2", "--tools", "3", "--turns", "2"]) == 0

    out, err = capfd.readouterr()
    rows = dict(_rows(out))
    assert "2 sessions at once on the embedded endpoint" in out
    assert rows["sessions that finished"] == "2 of 2"
    assert rows["runs that finished"] == "4 of 4"
    assert rows["tool calls"] == "12"
    assert rows["connections left behind"] == "0"
    assert err == ""


@pytest.mark.usefixtures("quick")
def test_demo_shows_progress_on_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()

    def terminal() -> Console:
        return Console(file=shown, force_terminal=True, width=100)

    monkeypatch.setattr(command, "Console", terminal)

    assert main(["demo", "--sessions", "2", "--tools", "1"]) == 0
    assert "tools running" in shown.getvalue()
    shown.truncate(0)
    assert main(["demo", "--sessions", "1", "--tools", "0", "--json"]) == 0
    assert "tools running" not in shown.getvalue()


def test_demo_with_failed_runs_exits_1(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        where = ["--base-url", f"http://127.0.0.1:{refusing.getsockname()[1]}", "--model", "m"]
        assert main(["demo", "--sessions", "2", *where, "--json"]) == 1

    out, err = capfd.readouterr()
    report = json.loads(out)
    assert (report["sessions"], report["runs"], report["ttft_ms_p50"]) == (0, 0, None)
    assert err.startswith("error: 2 of 2 runs did not finish; the first failure: http://127.0.0.1")
    assert err.count("\n") == 1


def test_demo_start_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(wanted: int) -> None:
        raise PermissionError(1, "no descriptors")

    monkeypatch.setattr("agent_actors.cli.demo.runner._allow_descriptors", refuse)

    assert main(["demo", "--json"]) == 1
    assert capfd.readouterr() == ("", "error: no descriptors\n")


def test_closed_output_ends_silently(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(arguments: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(app, "app", broken)
    gone = tmp_path / "gone"
    with gone.open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(["--help"]) == 141
        stdout.write("what was buffered")
    assert gone.read_text() == ""
    assert capfd.readouterr() == ("", "")


def test_early_ctrl_c_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "app", interrupt)

    assert main(["--help"]) == 130
    assert capfd.readouterr() == ("", "interrupted\n")


def _rows(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) == 4:
            yield cells[1], cells[2]

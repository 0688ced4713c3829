"""The commands in the pages exist, with the options that are shown, and the files can be loaded."""

import ast
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import cast

import pytest

from agent_actors import AgentOptions
from agent_actors.cli.app import app
from agent_actors.cli.doctor.findings import ObservedQuirk
from agent_actors.cli.doctor.recommendations import Recommendation
from agent_actors.cli.doctor.report import Check, Figures, Report
from agent_actors.model import load_profiles
from agent_actors.testing import ScriptedEndpoint, demo_script
from tests.docs.page_helpers import EXAMPLES, PAGES, ROOT, Block, blocks
from tests.program_helpers import output_of, run_program

SHELL = [b for b in blocks("sh", "console", "text") if b.language != "text" or b.text[0] == "$"]
PRINTED = [b for b in blocks("text") if b.marked.startswith("printed by ")]
LANGUAGES = {"", "console", "diff", "json", "markdown", "python", "sh", "text", "toml", "yaml"}
# Programs that are not part of this project; their options are not checked.
OF_OTHERS = {".", "cd", "curl", "export", "git", "printf", "pytest", "python3"}
# A developer's variables are left out; PYTHONPATH is kept because it makes package warnings errors.
BARE = {"PATH": os.defpath, "PYTHONPATH": os.environ["PYTHONPATH"]}
MODULES = ("pytest", "agent_actors.testing", "venv")


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command in a block, without assignments and redirection targets."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language != "sh":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set("&|;<>"):
                while command and re.match(r"[A-Z_]+=", command[0]):
                    command.pop(0)
                if command:
                    yield command
                command = []
            else:
                command.append(word)


def options_of(module: str) -> set[str]:
    return set(re.findall(r"--[a-z-]+", output_of(["-m", module, "--help"])))


def check_python(words: list[str]) -> None:
    match words:
        case ["-c", code]:
            assert ast.parse(code).body
        case ["-m", module, *rest]:
            assert module in MODULES
            if module.startswith("agent_actors"):
                assert {word for word in rest if word.startswith("--")} <= options_of(module)
            assert all((ROOT / word).exists() for word in rest if word.startswith("tests/"))
        case _:
            pytest.fail(f"who runs python {words}?")


def check(words: list[str]) -> None:
    """Fail if a command does not exist."""
    match words:
        case ["agent-actors", *rest]:
            # `main` moves a lone dash behind `--`, because the parser takes it for an option.
            words = ["stdin" if word == "-" else word for word in rest]
            app.parse_args(words, exit_on_error=False, print_error=False)
        case ["python" | "python3" | ".venv/bin/python", *rest]:
            check_python(rest)
        case ["make", *targets]:
            made = (ROOT / "Makefile").read_text("utf-8")
            assert all(f"\n{target}:" in made for target in targets)
        case ["pip", "install", *packages]:
            check_packages(packages)
        case ["hypercorn", *_, served]:
            module, _, name = served.partition(":")
            assert f"\n{name} = " in (EXAMPLES / f"{module}.py").read_text("utf-8")
        case [program, *_]:
            # Anything else in the place of a command is its output, or a file that it writes.
            assert program in OF_OTHERS or "." in program, f"what is {program}?"
        case _:
            pass


def check_packages(packages: list[str]) -> None:
    project = cast("dict[str, dict[str, object]]", tomllib.loads(text_of("pyproject.toml")))
    extras = cast("dict[str, list[str]]", project["project"]["optional-dependencies"])
    for package in packages:
        if package.startswith(".["):
            assert set(package[2:-1].split(",")) <= set(extras)
        else:
            assert any(one.startswith(package) for one in extras["dev"])


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_code_block_languages_are_known() -> None:
    assert {one.language for one in blocks()} <= LANGUAGES


def test_blocks_without_language_are_pictures() -> None:
    for one in blocks(""):
        assert set(one.text) & set("┌─┐"), one


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_and_options_exist(block: Block) -> None:
    found = list(commands(block))
    assert found
    for words in found:
        check(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_make_targets_exist(page: Path) -> None:
    made = text_of("Makefile")
    for target in re.findall(r"`(?:[A-Z]+=\S+ )*make ([a-z-]+)`", page.read_text("utf-8")):
        assert f"\n{target}:" in made or f" {target}:" in made, target


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_agents_load(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(name, "localhost")
    path = tmp_path / "agent.yaml"
    path.write_text(block.text, encoding="utf-8")
    assert AgentOptions.from_file(path).model


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_profile_files_load(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(block.text, encoding="utf-8")
    profiles = load_profiles(path)
    assert all(profiles[name] for name in tomllib.loads(block.text))


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_report_has_shown_keys(block: Block) -> None:
    report = Report(
        endpoint="e",
        provider="p",
        protocol="openai",
        model="m",
        checks=(Check("tool call", "works", "told"),),
        figures=Figures(),
        observed_quirks=(ObservedQuirk(21, "name", "seen"),),
        expected=(),
        recommendations=(Recommendation("profile", "max_tokens_field", "x", "why"),),
    )
    made = report.as_json()
    shown = cast("dict[str, object]", json.loads(block.text))
    assert set(shown) <= set(made)
    assert set(cast("dict[str, object]", shown["figures"])) <= set(
        cast("dict[str, object]", made["figures"])
    )
    for name in ("checks", "quirks", "set"):
        (one,) = cast("list[dict[str, object]]", shown[name])
        (other,) = cast("list[dict[str, object]]", made[name])
        assert set(one) == set(other)


def test_program_output_is_marked() -> None:
    loose = [b for b in blocks("text") if b not in PRINTED and b not in SHELL]
    assert [b.marked for b in loose] == [
        "captured by scripts/docs_chat.py",
        "compared by tests/telemetry/test_otel.py",
        "an example of the form",
    ]


@pytest.mark.parametrize("block", PRINTED, ids=str)
async def test_a_program_prints_what_its_page_shows(block: Block) -> None:
    assert block.file is not None
    async with ScriptedEndpoint(demo_script(2, every=0.001)) as endpoint:
        done = await run_program(
            [str(block.file)],
            env={**BARE, "BASE_URL": endpoint.base_url, "MODEL": "scripted"},
        )
    assert done.returncode == 0, done.stderr.decode()
    printed = sorted(done.stdout.decode().splitlines())
    for line, shown in zip_longest(printed, sorted(block.text.splitlines()), fillvalue=""):
        start, dots, _ = shown.partition("...")
        assert line.startswith(start) if dots else line == shown

"""`agent-actors doctor`, started as a user starts it."""

import contextlib
import json
import os
import pty
from subprocess import DEVNULL

import pytest
import trio

from agent_actors.cli import main
from agent_actors.testing import ScriptedEndpoint, silent
from tests.cli.doctor.helpers import KEY, good
from tests.cli.helpers import PATIENCE, PROGRAM, agent_actors, at, environment, running
from tests.program_helpers import start


async def test_usable_endpoint_exits_with_status_0() -> None:
    async with ScriptedEndpoint(good) as endpoint:
        ended = await agent_actors("doctor", *at(endpoint))

    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(f"scripted at {endpoint.base_url} (openai-compatible, openai)\n")
    assert ended.out.endswith("An agent can use this endpoint.\n")
    assert "works   * tool call       get_weather(" in ended.out


async def test_json_is_one_object_without_key() -> None:
    async with ScriptedEndpoint(good) as endpoint:
        ended = await agent_actors(
            "doctor", *at(endpoint), "--json", env={"AGENT_ACTORS_API_KEY": KEY}
        )

    assert (ended.status, ended.err, ended.out.count("\n")) == (0, "", 1)
    report = json.loads(ended.out)
    assert (report["usable"], report["model"]) == (True, "scripted")
    assert KEY not in ended.out
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_dead_port_ends_with_status_1() -> None:
    async with ScriptedEndpoint([], listening=False) as endpoint:
        ended = await agent_actors("doctor", *at(endpoint))

    assert (ended.status, ended.err) == (1, "")
    assert "fails   * reachable       could not connect" in ended.out
    assert "missing: reachable, answer, tool call, tool result.\n" in ended.out


async def test_terminal_shows_probes_then_tables() -> None:
    ours, theirs = pty.openpty()
    shown = bytearray()
    try:
        async with ScriptedEndpoint(good) as endpoint:
            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_keep_reading, ours, shown)
                    program = start(
                        [*PROGRAM[1:], "doctor", *at(endpoint)],
                        stdout=theirs,
                        stderr=DEVNULL,
                        env=environment({"TERM": "xterm"}),
                    )
                    try:
                        status = await program.wait()
                    finally:
                        program.kill()
                    nursery.cancel_scope.cancel()
    finally:
        os.close(theirs)
        os.close(ours)

    assert status == 0
    text = shown.decode()
    assert "trying: " in text
    assert text.index("check") > text.index("trying: ")
    assert "An agent can use this endpoint." in text


async def _keep_reading(descriptor: int, shown: bytearray) -> None:
    os.set_blocking(descriptor, False)
    try:
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            shown += os.read(descriptor, 65_536)
    finally:
        with contextlib.suppress(BlockingIOError):
            shown += os.read(descriptor, 65_536)


async def test_ctrl_c_closes_connection_with_status_130() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint(lambda _: silent()) as endpoint,
            running("doctor", *at(endpoint)) as it,
        ):
            await endpoint.wait_requests(2)
            it.interrupt()
            ended = await it.ended()
            await endpoint.wait_closed()

    assert (ended.status, ended.out, ended.err) == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no endpoint was given; pass --base-url URL or --provider NAME"),
        (["--base-url", "http://x"], "no model was given; pass --model NAME"),
        (["--base-url", "x", "--model", "m"], "base_url must begin with http"),
        (["--provider", "olama", "--model", "m"], "there is no provider profile 'olama'"),
        (["--provider", "openai", "--model", "m"], "there is no API key for the provider 'openai'"),
        (["--provider", "ollama", "--model", "m", "--timeout", "0"], "--timeout must be above 0"),
    ],
)
def test_wrong_usage_is_one_line_status_2(
    arguments: list[str],
    expected: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["doctor", *arguments]) == 2

    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert expected in err

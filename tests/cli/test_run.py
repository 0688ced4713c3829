"""`agent-actors run` as a process, against a real endpoint on loopback."""

import re
import subprocess
from pathlib import Path

import pytest
import trio

from agent_actors.codec.events import loads_event
from agent_actors.domain.events import AssistantDelta, ResultEvent, SystemInit
from agent_actors.testing import (
    Reply,
    ScriptedEndpoint,
    call,
    hang,
    reply,
    say,
    status,
    usage,
    wait,
)
from tests.cli.helpers import PATIENCE, Ended, agent_actors, at, running


async def test_response_is_written_incrementally() -> None:
    shown = trio.Event()
    script = [reply(say("Hello "), wait(shown), say("there."))]
    with trio.fail_after(PATIENCE):
        async with ScriptedEndpoint(script) as endpoint, running("run", "Hi", *at(endpoint)) as it:
            await it.read_until("Hello ")
            shown.set()
            await it.read_until("there.\n")
            ended = await it.ended()

    assert (ended.status, ended.err) == (0, "")
    assert ended.out == "Hello there.\n"


async def test_a_dash_reads_the_prompt_from_stdin() -> None:
    async with ScriptedEndpoint([reply(say("é 😀"), usage(12, 34))]) as endpoint:
        env = {
            "AGENT_ACTORS_BASE_URL": endpoint.base_url,
            "AGENT_ACTORS_MODEL": "from-env",
            "PYTHONIOENCODING": "ascii",
        }
        ended = await agent_actors("run", "-", "--usage", stdin=b"Count.\n", env=env, fresh=True)

    assert ended == Ended(0, "? ?\n", "usage: 12 tokens in, 34 out\n")
    (request,) = endpoint.requests
    assert request.body["model"] == "from-env"
    assert request.body["messages"] == [{"role": "user", "content": "Count."}]


async def test_run_offers_tools_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "run_tools.py").write_text(
        "def double(n: int) -> int:\n    'Double a number.'\n    return 2 * n\n"
    )
    script: list[Reply | str] = [reply(say("Let me see."), call("double", {"n": 21})), "It is 42."]
    async with ScriptedEndpoint(script) as endpoint:
        options = (*at(endpoint), "--tools", "run_tools:double")
        ended = await agent_actors("run", "Hi", *options, env={"PYTHONPATH": str(tmp_path)})
        lost = await agent_actors("run", "Hi", *at(endpoint), "--tools", "run_tools:no")

    assert (ended.status, ended.out) == (0, "Let me see.\nIt is 42.\n")
    assert re.sub(r" in \d+ ms", "", ended.err) == "tool: double(n=21): done\n  42\n"
    assert (lost.status, lost.out, lost.err[:16]) == (2, "", "error: --tools: ")


async def test_events_are_written_as_lines_of_json() -> None:
    async with ScriptedEndpoint([reply(say("a", "b 😀"))]) as endpoint:
        ended = await agent_actors(
            "run", "Hi", *at(endpoint), "--json", env={"PYTHONIOENCODING": "ascii"}
        )

    events = [loads_event(line, strict=True) for line in ended.out.splitlines()]
    assert isinstance(events[0], SystemInit)
    assert [e.text for e in events if isinstance(e, AssistantDelta)] == ["a", "b 😀"]
    assert isinstance(events[-1], ResultEvent)
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize("code", [401, 501])
async def test_endpoint_refusal_is_one_line_status_1(code: int) -> None:
    async with ScriptedEndpoint([status(code, "no\nway")]) as endpoint:
        ended = await agent_actors("run", "Hi", *at(endpoint))

    line = f"error: {endpoint.base_url}: HTTP {code}: no way\n"
    assert (ended.status, ended.out, ended.err) == (1, "", line)


async def test_a_refused_connection_names_the_endpoint() -> None:
    async with ScriptedEndpoint([], listening=False) as endpoint:
        ended = await agent_actors("run", "Hi", *at(endpoint))

    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {endpoint.base_url}/chat/completions: could not connect")
    assert ended.err.count("\n") == 1


async def test_ctrl_c_closes_connection_with_status_130() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint([reply(say("One "), hang())]) as endpoint,
            running("run", "Count", *at(endpoint), fresh=True) as it,
        ):
            await it.read_until("One ")
            it.interrupt()
            ended = await it.ended()
            await endpoint.wait_closed()

    assert (ended.status, ended.err) == (130, "interrupted\n")


async def test_ctrl_c_ends_wait_for_prompt() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint(["Never asked."]) as endpoint,
            running("run", "-", *at(endpoint), stdin=subprocess.PIPE) as it,
        ):
            assert isinstance(it.process.stdin, trio.abc.SendStream)
            # More than the pipe holds: when it is sent, the program is reading and waits for more.
            await it.process.stdin.send_all(b"x" * 200_000)
            it.interrupt()
            ended = await it.ended()

    assert (ended.status, ended.out, ended.err) == (130, "", "interrupted\n")
    assert not endpoint.requests


async def test_closed_stdout_ends_run_silently() -> None:
    closed = trio.Event()
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint([reply(say("One "), wait(closed), say("two"), hang())]) as endpoint,
            running("run", "Count", *at(endpoint), fresh=True) as it,
        ):
            await it.read_until("One ")
            await it.close_output()
            closed.set()
            ended = await it.ended()
            await endpoint.wait_closed()

    assert (ended.status, ended.err) == (141, "")


async def test_ctrl_c_works_while_stdout_is_blocked() -> None:
    # More than a pipe holds, so that the program blocks until the output is read.
    much = reply(say("x" * 200_000), hang())
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint([much]) as endpoint,
            running("run", "Go", *at(endpoint)) as it,
        ):
            await it.read_until("x")
            it.interrupt()
            ended = await it.ended()
            await endpoint.wait_closed()

    assert (ended.status, ended.err) == (130, "interrupted\n")


async def test_agent_is_read_from_a_file(tmp_path: Path) -> None:
    commands = tmp_path / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "fix.md").write_text("Fix issue $1.")
    agent = tmp_path / "agent.yaml"
    agent.write_text("name: a\nmodel: m\nsystem_prompt: Own.\nsetting_sources: [project]\ncwd: .\n")
    async with ScriptedEndpoint(["Fixed."]) as endpoint:
        url = ("--base-url", endpoint.base_url)
        ended = await agent_actors("run", "/fix 7", "--agent", str(agent), *url)

    assert (ended.status, ended.out, ended.err) == (0, "Fixed.\n", "")
    (request,) = endpoint.requests
    assert request.body["messages"] == [
        {"role": "system", "content": "Own."},
        {"role": "user", "content": "Fix issue 7."},
    ]

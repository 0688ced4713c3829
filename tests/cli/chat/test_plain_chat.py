"""`agent-actors chat` through pipes: each input line gets a response."""

import subprocess
from pathlib import Path

import pytest
import trio

from agent_actors.testing import ScriptedEndpoint, call, hang, reply, say, status, think
from tests.cli.helpers import PATIENCE, Ended, agent_actors, at, running


async def test_stdout_contains_only_answers() -> None:
    async with ScriptedEndpoint([reply(think("Hm."), say("One")), "日本 2\n"]) as endpoint:
        ended = await agent_actors(
            "chat", *at(endpoint), "--show-thinking", stdin="first\n\nzwölf".encode()
        )

    assert ended == Ended(0, "One\n日本 2\n", "Hm.\n")
    assert [r.last_content for r in endpoint.requests] == ["first", "zwölf"]


async def test_commands_answer_and_double_slash_escapes() -> None:
    lines = b"/model other\n//model\n/tokens\n/history 1\n/rewind\n/history\n/quit\nnever\n"
    async with ScriptedEndpoint(["ChatMessage."]) as endpoint:
        ended = await agent_actors("chat", *at(endpoint), stdin=lines)

    assert ended.status == 0
    head, *rest = ended.out.splitlines()
    assert head == "model: other"
    assert rest[0] == "ChatMessage."
    assert rest[1].startswith("this session: ")
    assert rest[2:] == ["model:", "ChatMessage."]
    assert ended.err.splitlines() == [
        "... (1 messages before)",
        "rewound to before: /model",
        "the conversation is empty",
    ]
    (request,) = endpoint.requests
    assert (request.model, request.last_content) == ("other", "/model")


async def test_error_is_shown_and_sets_status() -> None:
    async with ScriptedEndpoint([status(401, "no\x1b[2J key"), say("Fine.")]) as endpoint:
        ended = await agent_actors("chat", *at(endpoint), stdin=b"one\ntwo\n/quti\n")

    assert (ended.status, ended.out) == (1, "Fine.\n")
    refused, unknown = ended.err.splitlines()
    assert refused.startswith(f"error: {endpoint.base_url}: HTTP 401: no")
    assert unknown.startswith("error: the command /quti is unknown; did you mean /quit?")
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("line", [b"/quti", b"/rewind", b"/save", b"/save x.txt", b"/history x"])
async def test_meaningless_line_fails_in_a_script(line: bytes) -> None:
    async with ScriptedEndpoint(["Fine."]) as endpoint:
        ended = await agent_actors("chat", *at(endpoint), stdin=line + b"\none\n")
    assert (ended.status, ended.out) == (1, "Fine.\n")
    assert ended.err.startswith("error: ")


async def test_environment_variables_supply_defaults(tmp_path: Path) -> None:
    async with ScriptedEndpoint(["One.", "Two."]) as endpoint:
        env = {
            "AGENT_ACTORS_PROVIDER": "vllm",
            "VLLM_BASE_URL": endpoint.base_url,
            "AGENT_ACTORS_MODEL": "m",
            "AGENT_ACTORS_STORE": str(tmp_path / "chats.db"),
        }
        for prompt in (b"one\n", b"two\n"):
            ended = await agent_actors("chat", "--session", "s", stdin=prompt, env=env)
            assert (ended.status, ended.err) == (0, "")
    assert [m["content"] for m in endpoint.requests[1].messages] == ["one", "One.", "two"]


@pytest.mark.parametrize("command", [("chat",), ("run", "one")])
async def test_a_blank_variable_names_no_provider(command: tuple[str, ...]) -> None:
    blank = {"AGENT_ACTORS_PROVIDER": ""}
    async with ScriptedEndpoint(["One."]) as endpoint:
        ended = await agent_actors(*command, *at(endpoint), stdin=b"one\n", env=blank)
    assert (ended.status, ended.out) == (0, "One.\n")


async def test_unanswerable_question_is_denied() -> None:
    calls = [call("take_note", {"text": "x"}), call("calculate", {"formula": "2*3"})]
    async with ScriptedEndpoint([calls, "So.", "You said y."]) as endpoint:
        ended = await agent_actors("chat", *at(endpoint), "--demo-tools", stdin=b"note\ny\n")

    assert (ended.status, ended.out) == (0, "So.\nYou said y.\n")
    assert 'note: no person can be asked: Allow take_note({"text": "x"})?' in ended.err
    assert 'tool: take_note(text="x"): failed' in ended.err
    assert 'tool: calculate(formula="2*3"): done in ' in ended.err
    results = [m["content"] for m in endpoint.requests[1].messages if m["role"] == "tool"]
    assert results == ["the call was not permitted: no person can be asked", "6"]


async def test_ctrl_c_exits_with_status_130() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint([reply(say("One "), hang())]) as endpoint,
            running("chat", *at(endpoint), stdin=subprocess.PIPE) as it,
        ):
            assert it.process.stdin is not None
            await it.process.stdin.send_all(b"Count\n")
            await it.read_until("One ")
            it.interrupt()
            ended = await it.ended()
            await endpoint.wait_closed()

    assert (ended.status, ended.err) == (130, "interrupted\n")


async def test_closed_output_ends_chat_silently() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            ScriptedEndpoint(["One", "Two"]) as endpoint,
            running("chat", *at(endpoint), stdin=subprocess.PIPE) as it,
        ):
            assert it.process.stdin is not None
            await it.process.stdin.send_all(b"1\n")
            await it.read_until("One\n")
            await it.close_output()
            await it.process.stdin.send_all(b"2\n")
            ended = await it.ended()

    assert (ended.status, ended.err) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--tools", "jsn"), "--tools: unknown built-in tool 'jsn'"),
        (("--tools", "no_such_module:x"), "--tools: 'no_such_module' cannot be imported"),
        (("--tools", "json:nothing"), "--tools: module 'json' has no 'nothing'"),
        (("--tools", "json:decoder"), "--tools json:decoder: "),
        (("--permissions", "some"), "permissions"),
        (("--temperature", "hot"), "temperature"),
    ],
)
async def test_unusable_configuration_exits_with_status_2(
    arguments: tuple[str, ...], error: str
) -> None:
    ended = await agent_actors(
        "chat", "--base-url", "http://127.0.0.1:1", "--model", "m", *arguments
    )
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert error in ended.err
    assert ended.err.count("\n") == 1


async def test_missing_endpoint_names_the_option() -> None:
    ended = await agent_actors("chat")
    assert ended.status == 2
    assert "pass --base-url URL or --provider NAME" in ended.err


async def test_tools_command_lists_builtin_tools(tmp_path: Path) -> None:
    async with ScriptedEndpoint([]) as endpoint:
        arguments = (*at(endpoint), "--tools", "Edit", "--workspace", str(tmp_path))
        ended = await agent_actors("chat", *arguments, stdin=b"/tools\n")
    assert ended.out.startswith("Edit: Replace exact text in a file.")
    assert ended.out.endswith("(changes here, asks first)\n")

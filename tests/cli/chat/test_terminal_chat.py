"""`agent-actors chat` in a pseudo-terminal, against a real endpoint on loopback."""

import re
import signal
import stat
from pathlib import Path

import pytest
import trio

from agent_actors.testing import (
    EndpointRequest,
    ScriptedEndpoint,
    call,
    hang,
    hang_up,
    reply,
    say,
    status,
    think,
    usage,
    wait,
)
from scripts.pseudo_terminal import CTRL_C, CTRL_D, CTRL_J, ENTER, UP, in_terminal
from tests.cli.chat.helpers import chatting, next_prompt
from tests.cli.helpers import PATIENCE, PROGRAM, at, environment

NOTE = [call("take_note", {"text": "buy tea"})]


async def test_conversation_ends_with_quit(tmp_path: Path) -> None:
    first = reply(say("Hello **you**.\n\n- one\n- two\n\nDone.", chunks=12), usage(12, 34))
    async with (
        ScriptedEndpoint([first, "Again."]) as endpoint,
        chatting(endpoint, tmp_path, fresh=True) as it,
    ):
        it.type(f"Hi{ENTER}")
        await it.until("12 tokens in, 34 out")
        it.type(f"More{ENTER}")
        await it.until("Again.")
        await next_prompt(it)
        it.type(f"/quit{ENTER}")
        assert await it.end() == 0
        assert it.is_cooked()

    assert "\n> Hi\n\nHello you.\n\n • one\n • two\n\nDone.\n\n" in it.screen.text
    assert it.screen.text.count("Hello you.") == 1
    assert [m["content"] for m in endpoint.requests[1].messages][0::2] == ["Hi", "More"]


async def test_unfinished_block_is_drawn_once(tmp_path: Path) -> None:
    shown, done = trio.Event(), trio.Event()
    script = reply(say("One *a*.\n\nTwo "), wait(shown), say("*b*"), wait(done), say("."))
    async with ScriptedEndpoint([script]) as endpoint, chatting(endpoint, tmp_path) as it:
        it.type(f"Hi{ENTER}")
        await it.until("\nTwo\n")
        shown.set()
        await it.until("\nTwo b\n")
        done.set()
        await it.until("\nTwo b.\n")

    # Each delta was drawn in its place; the finished block was never written again.
    assert it.written.count("One ") == 1


async def test_call_is_approved_and_shown_with_result(tmp_path: Path) -> None:
    calls = [*NOTE, call("calculate", {"formula": "6*7"})]
    async with (
        ScriptedEndpoint([calls, "Noted.", NOTE, "Noted too."]) as endpoint,
        chatting(endpoint, tmp_path, "--demo-tools") as it,
    ):
        it.type(f"note it{ENTER}")
        await it.until('Allow take_note({"text": "buy tea"})?')
        await it.until("yes/session/always/no>")
        it.type(f"what{ENTER}")
        await it.until("the first letter is enough\nyes/session/always/no>")
        it.type(f"s{ENTER}")
        await it.until("Noted.")
        await next_prompt(it)
        # The call is allowed for the rest of the session.
        it.type(f"again{ENTER}")
        await it.until("Noted too.")

    assert '✓ take_note(text="buy tea")' in it.screen.text
    assert '✓ calculate(formula="6*7")' in it.screen.text
    assert "\n  42\n" in it.screen.text
    assert it.screen.text.count("Allow take_note") == 1
    results = [m["content"] for m in endpoint.requests[1].messages if m["role"] == "tool"]
    assert results == ["note 1 taken", "42"]


async def test_earlier_typing_does_not_answer_a_question(tmp_path: Path) -> None:
    typed = trio.Event()
    async with (
        ScriptedEndpoint([reply(say("Wait "), wait(typed), *NOTE), "Fine."]) as endpoint,
        chatting(endpoint, tmp_path, "--demo-tools") as it,
    ):
        it.type(f"note it{ENTER}")
        await it.until("Wait")
        it.type(f"y{ENTER}")
        typed.set()
        await it.until("yes/session/always/no>")
        it.type(f"n{ENTER}")
        await it.until("Fine.")

    assert "✗ take_note" in it.screen.text
    assert "note 1 taken" not in it.screen.text


async def test_ctrl_c_at_question_interrupts_turn(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint([NOTE, "Well."]) as endpoint,
        chatting(endpoint, tmp_path, "--demo-tools") as it,
    ):
        it.type(f"note it{ENTER}")
        await it.until("yes/session/always/no>")
        it.type(CTRL_C)
        await it.until("interrupted")
        await next_prompt(it)
        it.type(f"and now?{ENTER}")
        await it.until("Well.")

    roles = [m["role"] for m in endpoint.requests[1].messages]
    assert roles == ["user", "assistant", "tool", "user"]


async def test_ctrl_c_during_answer_keeps_session(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint([reply(say("One "), hang()), "Two."]) as endpoint,
        chatting(endpoint, tmp_path) as it,
    ):
        it.type(f"Count{ENTER}")
        await it.until("\nOne\n")
        it.type(CTRL_C)
        await it.until("interrupted; finished parts are kept")
        await next_prompt(it)
        it.type(f"Go on{ENTER}")
        await it.until("Two.")
        await next_prompt(it)
        it.type(CTRL_C)
        await it.until("press Ctrl-C again to leave\n")
        await next_prompt(it)
        it.type(CTRL_C)
        assert await it.end() == 0
        assert it.is_cooked()

    assert [m["content"] for m in endpoint.requests[1].messages] == ["Count", "Go on"]


async def test_ctrl_c_clears_line_then_asks(tmp_path: Path) -> None:
    async with ScriptedEndpoint([]) as endpoint, chatting(endpoint, tmp_path) as it:
        it.type("half a line")
        await it.until("half a line")
        it.type(CTRL_C)
        await next_prompt(it)
        it.type(CTRL_C)
        await it.until("press Ctrl-C again to leave")
        await next_prompt(it)
        it.type("/help" + ENTER)
        await it.until("/rewind [N]")
        await next_prompt(it)
        it.type(CTRL_D)
        assert await it.end() == 0


async def test_last_prompt_can_be_edited_again(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(["First.", "Second.", "Third."]) as endpoint,
        chatting(endpoint, tmp_path) as it,
    ):
        it.type(f"one{ENTER}")
        await it.until("First.")
        it.type(f"two{ENTER}")
        await it.until("Second.")
        it.type(f"/rewind{ENTER}")
        await it.until("rewound to before: two\n> two")
        it.type(f" again{ENTER}")
        await it.until("Third.")
        await next_prompt(it)
        it.type(f"/rewind 5{ENTER}")
        await it.until("cannot remove 5 prompts; there are only 2")
        await next_prompt(it)
        it.type(f"/history 1{ENTER}")
        await it.until("model:\nThird.")

    said = [m["content"] for m in endpoint.requests[2].messages]
    assert said == ["one", "First.", "two again"]


async def test_session_resumes_where_it_ended(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    kept = ("--session", "tea", "--store", str(store))
    async with ScriptedEndpoint(["First.", "Second."]) as endpoint:
        async with chatting(endpoint, tmp_path, *kept) as it:
            await it.until("new session tea")
            it.type(f"one{ENTER}")
            await it.until("First.")
            await next_prompt(it)
            it.type(CTRL_D)
            assert await it.end() == 0
            assert "--session tea --store" in it.screen.text
        async with chatting(endpoint, tmp_path, *kept) as it:
            await it.until("continuing session tea, 2 messages")
            # The Up key recalls input from the earlier chat.
            it.type(f"{UP}{ENTER}")
            await it.until("Second.")

    assert [m["content"] for m in endpoint.requests[1].messages] == ["one", "First.", "one"]
    typed = tmp_path / "agent-actors/chat-input"
    assert "\n+one\n" in typed.read_text()
    assert stat.S_IMODE(typed.stat().st_mode) == 0o600


async def test_double_ctrl_c_keeps_conversation(tmp_path: Path) -> None:
    async with ScriptedEndpoint(["First.", reply(say("Sec"), hang()), "Third."]) as endpoint:
        async with chatting(endpoint, tmp_path) as it:
            it.type(f"one{ENTER}")
            await it.until("First.")
            await next_prompt(it)
            it.type(f"two{ENTER}")
            await it.until("Sec")
            it.type(CTRL_C)
            await next_prompt(it)
            it.type(CTRL_C)
            assert await it.end() == 0
            found = re.search(r"agent-actors chat --session (\S+)", it.screen.text)
        assert found is not None
        async with chatting(endpoint, tmp_path, "--session", found[1]) as it:
            it.type(f"three{ENTER}")
            await it.until("Third.")

    kept = [m["content"] for m in endpoint.requests[2].messages]
    assert kept == ["one", "First.", "two", "three"]


async def test_input_typed_while_starting_is_sent(tmp_path: Path) -> None:
    def script(request: EndpointRequest) -> str:
        return f"Got {request.last_content}."

    env = environment({"TERM": "xterm-256color", "XDG_STATE_HOME": str(tmp_path)})
    with trio.fail_after(PATIENCE):
        async with ScriptedEndpoint(script) as endpoint:
            async with in_terminal([*PROGRAM, "chat", *at(endpoint)], env) as it:
                it.type(f"one{ENTER}two{ENTER}th")
                await it.until("Got two.")
                await it.until_true(lambda: it.screen.text.split("\n")[-1] == "> th")
                it.type(f"ree{ENTER}")
                await it.until("Got three.")
            assert "\n> one\n\nGot one.\n" in it.screen.text


async def test_several_lines_are_one_prompt(tmp_path: Path) -> None:
    async with ScriptedEndpoint(["Read."]) as endpoint, chatting(endpoint, tmp_path) as it:
        it.type(f"one{CTRL_J}two\\{ENTER}three\x1b{ENTER}four{ENTER}")
        await it.until("Read.")

    (request,) = endpoint.requests
    assert request.last_content == "one\ntwo\nthree\nfour"


@pytest.mark.parametrize("width", [12, 30])
async def test_a_narrow_terminal_shows_wide_characters_whole(tmp_path: Path, width: int) -> None:
    text = "日本語のテキスト😀 und Wörter, " * 6
    script = [reply(say(text + "\n\n| a | b |\n|---|---|\n| 日本 | x |\n", chunks=40), usage(1, 2))]
    async with (
        ScriptedEndpoint(script) as endpoint,
        chatting(endpoint, tmp_path, width=width, height=40) as it,
    ):
        it.type(f"Hi{ENTER}")
        await it.until("in, 2")
        await next_prompt(it)

    shown = "".join(it.screen.text.split())
    assert shown.count("日本語のテキスト😀") == 6
    assert shown.count("undWörter,") == 6


async def test_long_answer_is_printed_once(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(60)]
    text = "```\n" + "\n".join(lines) + "\n```\nEnd."
    script = [reply(say(text, chunks=80, every=0.002))]
    async with (
        ScriptedEndpoint(script) as endpoint,
        chatting(endpoint, tmp_path, height=10) as it,
    ):
        it.type(f"Hi{ENTER}")
        await it.until("End.")
        await next_prompt(it)

    shown = it.screen.text.split("\n")
    assert [line.strip() for line in shown if "line " in line] == lines


async def test_a_huge_result_is_shown_in_part(tmp_path: Path) -> None:
    (tmp_path / "huge_tools.py").write_text(
        "from agent_actors import tool\n"
        "@tool(read_only=True, open_world=False)\n"
        "def dump() -> str:\n"
        "    'Everything.'\n"
        "    return 'row\\n' * 50_000 + '\\x1b[2J\\x1b]0;owned\\x07'\n"
        "ALL = [dump]\n"
    )
    async with (
        ScriptedEndpoint([[call("dump", {})], "Much."]) as endpoint,
        chatting(endpoint, tmp_path, "--tools", "huge_tools:ALL", cwd=tmp_path) as it,
    ):
        it.type(f"Hi{ENTER}")
        await it.until("Much.")

    assert it.screen.text.count("row") == 8
    assert "... (49,993 more lines)" in it.screen.text


async def test_endpoint_error_is_shown_and_chat_continues(tmp_path: Path) -> None:
    refused = status(401, "bad \x1b[2Jkey")
    odd = reply(say("Hal"), think("?"), say("f\x1b[2J"))
    async with (
        ScriptedEndpoint([refused, odd, "Fine."]) as endpoint,
        chatting(endpoint, tmp_path) as it,
    ):
        it.type(f"one{ENTER}")
        await it.until("HTTP 401: bad")
        await next_prompt(it)
        it.type(f"two{ENTER}")
        await it.until("Hal\n")
        await next_prompt(it)
        it.type(f"three{ENTER}")
        await it.until("Fine.")
        await next_prompt(it)
        it.type(f"/tools{ENTER}")
        await it.until("the model has no tools")
        await next_prompt(it)
        it.type(f"/modle{ENTER}")
        await it.until("did you mean /model?")

    assert "\x1b[2J" not in it.written


async def test_kill_gives_the_terminal_back(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint([reply(say("One "), hang())]) as endpoint,
        chatting(endpoint, tmp_path) as it,
    ):
        assert not it.is_cooked()
        it.type(f"Count{ENTER}")
        await it.until("\nOne\n")
        it.process.send_signal(signal.SIGTERM)
        assert await it.end() == 128 + signal.SIGTERM
        assert it.is_cooked()
        await endpoint.wait_closed()


async def test_sigterm_at_prompt_restores_the_terminal(tmp_path: Path) -> None:
    async with ScriptedEndpoint([]) as endpoint, chatting(endpoint, tmp_path) as it:
        it.process.send_signal(signal.SIGTERM)
        assert await it.end() == 128 + signal.SIGTERM
        assert it.is_cooked()


async def test_an_interrupt_from_outside_is_ctrl_c(tmp_path: Path) -> None:
    async with ScriptedEndpoint([]) as endpoint, chatting(endpoint, tmp_path) as it:
        it.process.send_signal(signal.SIGINT)
        await it.until("press Ctrl-C again to leave")
        await next_prompt(it)
        it.process.send_signal(signal.SIGINT)
        assert await it.end() == 0


async def test_thoughts_are_shown_on_request(tmp_path: Path) -> None:
    answer = reply(think("Let me see.\nYes."), say("So."))
    async with (
        ScriptedEndpoint([answer, answer]) as endpoint,
        chatting(endpoint, tmp_path) as it,
    ):
        it.type(f"one{ENTER}")
        await it.until("So.")
        assert "Let me see." not in it.screen.text
        await next_prompt(it)
        it.type(f"/thinking{ENTER}")
        await it.until("thinking is shown")
        await next_prompt(it)
        it.type(f"two{ENTER}")
        await it.until("Let me see.\nYes.\n\nSo.")


async def test_plain_mode_has_no_escapes(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(
            [NOTE, "Noted **so**.", hang_up(), reply(say("One "), hang())]
        ) as endpoint,
        chatting(endpoint, tmp_path, "--demo-tools", "--plain") as it,
    ):
        it.type("note\n")
        await it.until("yes/session/always/no>")
        it.type("y\n")
        await it.until("Noted **so**.")
        it.type("count\n")
        await it.until("One")
        it.type(CTRL_C)
        await it.until("note: interrupted")
        await next_prompt(it)
        it.type(CTRL_C)
        assert await it.end() == 0

    assert "\x1b" not in it.written


async def test_tab_completes_a_command(tmp_path: Path) -> None:
    async with ScriptedEndpoint([]) as endpoint, chatting(endpoint, tmp_path) as it:
        it.type("/mo\t")
        await it.until("> /model")
        it.type(f"{ENTER}")
        await it.until("model: scripted")
        await next_prompt(it)
        it.type(f"/model x/t\t{ENTER}")
        await it.until("model: x/t")


async def test_repeated_ctrl_c_ends_stuck_turn(tmp_path: Path) -> None:
    (tmp_path / "stubborn_tools.py").write_text(
        "import trio\n"
        "from agent_actors import tool\n"
        "@tool(read_only=True, open_world=False)\n"
        "async def stay() -> None:\n"
        "    'Never end.'\n"
        "    with trio.CancelScope(shield=True):\n"
        "        await trio.sleep_forever()\n"
    )
    async with (
        ScriptedEndpoint([[call("stay", {})]]) as endpoint,
        chatting(endpoint, tmp_path, "--tools", "stubborn_tools:stay", cwd=tmp_path) as it,
    ):
        it.type(f"Hi{ENTER}")
        await it.until("● stay()")
        it.type(CTRL_C)
        await it.until("still ending; press Ctrl-C again")
        it.type(CTRL_C)
        assert await it.end() == -signal.SIGINT
        assert it.is_cooked()


async def test_sigint_at_question_acts_as_ctrl_c(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint([NOTE, "Well."]) as endpoint,
        chatting(endpoint, tmp_path, "--demo-tools") as it,
    ):
        it.type(f"note it{ENTER}")
        await it.until("yes/session/always/no>")
        it.process.send_signal(signal.SIGINT)
        await it.until("note: interrupted")
        await next_prompt(it)
        it.type(f"/quit{ENTER}")
        assert await it.end() == 0


async def test_backslash_continues_a_plain_line(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(["Read."]) as endpoint,
        chatting(endpoint, tmp_path, "--plain") as it,
    ):
        it.type("one\\\n")
        await it.until("\n.")
        it.type(CTRL_C)
        await next_prompt(it)
        it.type("two\\\nthree\n")
        await it.until("Read.")
        await next_prompt(it)
        it.type(CTRL_D)
        assert await it.end() == 0

    assert endpoint.requests[0].last_content == "two\nthree"


async def test_dumb_terminal_gets_plain_text(tmp_path: Path) -> None:
    async with (
        ScriptedEndpoint(["**So**."]) as endpoint,
        chatting(endpoint, tmp_path, term="dumb") as it,
    ):
        it.type("Hi\n")
        await it.until("**So**.")

    assert "\x1b" not in it.written

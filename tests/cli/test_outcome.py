"""The end of a command: exit statuses, messages, and Ctrl-C."""

import signal
import sys
from typing import NoReturn

import pytest
import trio

from agent_actors import AgentError
from agent_actors.cli.outcome import complete, fail, interrupted
from agent_actors.errors import ConfigError


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (AgentError("it\n broke"), 1, "error: it broke\n"),
        (ConfigError("AgentOptions: model is missing"), 2, "error: model is missing\n"),
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left on device"), 1, "error: No space left on device\n"),
        (OSError("odd"), 1, "error: odd\n"),
    ],
)
async def test_error_becomes_status_and_one_line(
    error: Exception, status: int, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def work() -> int:
        raise error

    assert await complete(work) == status
    assert capfd.readouterr() == ("", line)


async def test_foreign_exception_propagates() -> None:
    async def work() -> int:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        await complete(work)


async def test_finished_work_cancels_background_tasks() -> None:
    ended: list[str] = []

    async def background() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("background")

    async def work() -> int:
        await trio.testing.wait_all_tasks_blocked()
        ended.append("work")
        return 7

    assert await complete(work, alongside=[background]) == 7
    assert ended == ["work", "background"]


async def test_ctrl_c_cancels_work_and_waits(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = signal.getsignal(signal.SIGINT)
    ended: list[object] = []

    async def work() -> NoReturn:
        signal.raise_signal(signal.SIGINT)
        try:
            await trio.sleep_forever()
        finally:
            # A second Ctrl-C now ends the process at once.
            ended.append(signal.getsignal(signal.SIGINT))

    assert await complete(work) == 130
    assert ended == [signal.SIG_DFL]
    assert capfd.readouterr() == ("", "interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_message_cannot_steer_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert fail("red \x1b[31m\x9balarm\x07\r\nnow", 5) == 5
    assert capfd.readouterr().err == "error: red \ufffd[31m\ufffdalarm\ufffd now\n"


def test_interrupt_message_starts_its_own_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    assert interrupted() == 130
    assert capsys.readouterr().err == "\ninterrupted\n"

import socket
from functools import partial
from subprocess import PIPE
from typing import Final

import httpx
import pytest
import trio

from tests.cli.helpers import running
from tests.program_helpers import run_program
from tests.testing.raw_client import QUESTION

pytestmark = pytest.mark.usefixtures("fork_server")

MODULE: Final = "agent_actors.testing"
# Seconds; only a failing test waits so long.
PATIENCE: Final = 20.0
started = partial(running, stdin=PIPE, module=MODULE)


async def test_program_prints_url_and_follows_stdin() -> None:
    with trio.fail_after(PATIENCE):
        async with (
            started("--port", "0", "--tools", "0", "--deltas", "3", "--every", "0") as it,
            httpx.AsyncClient() as client,
        ):
            await it.read_until("\n")
            answer = await client.post(f"{it.out.strip()}/chat/completions", json=QUESTION)
            assert answer.text.count('"content"') == 4
            assert it.process.stdin is not None
            await it.process.stdin.aclose()
            ended = await it.ended()
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize("arguments", [[], ["--keep"]])
async def test_ctrl_c_prints_no_traceback(arguments: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with started(*arguments) as it:
            await it.read_until("\n")
            assert it.out.startswith("http://127.0.0.1:")
            it.interrupt()
            ended = await it.ended()
    assert (ended.status, ended.err) == (0, "")


async def test_program_may_run_without_stdin() -> None:
    with trio.fail_after(PATIENCE):
        async with started("--keep", "--tools", "0") as it, httpx.AsyncClient() as client:
            await it.read_until("\n")
            assert it.process.stdin is not None
            await it.process.stdin.aclose()
            assert (await client.get(f"{it.out.strip()}/models")).status_code == 200
            it.interrupt()
            assert (await it.ended()).status == 0


@pytest.mark.parametrize(
    ("port", "status", "expected"),
    [("", 1, "another port, or 0"), ("70000", 2, "65535; got 70000"), ("x", 2, "'x'")],
)
async def test_unusable_port_is_named_without_traceback(
    port: str, status: int, expected: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, trio.fail_after(PATIENCE):
        port = port or str(taken.getsockname()[1])
        done = await run_program(["-m", MODULE, "--port", port])
    err = done.stderr.decode()
    assert (done.returncode, done.stdout) == (status, b"")
    assert port in err
    assert expected in err
    assert "Traceback" not in err

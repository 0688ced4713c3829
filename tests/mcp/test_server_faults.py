"""Faulty MCP servers: each is an error result of its own tools, and nothing is left behind.

`nothing_left_behind` checks sockets, threads and processes after every test.
"""

import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors import RunResult, open_runtime
from agent_actors.abc import RemoteResult, RemoteTool
from agent_actors.actors.tool_servers.link import ServerLink
from agent_actors.actors.tool_servers.remote_tools import MAX_TOOLS
from agent_actors.domain.events import Notification
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ToolServerError
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.mcp import HttpServer, InProcessServer, StdioServer, stdio
from agent_actors.options.mcp_servers import McpServer
from agent_actors.testing import ScriptedModel, call, interleave
from tests.mcp.helpers import agent, raw, run, texts

FDS = Path("/proc/self/fd")


@pytest.fixture(autouse=True)
def same_descriptors() -> Iterator[None]:
    """Fail a test after which this process has more open descriptors."""
    before = len(list(FDS.iterdir())) if FDS.is_dir() else 0
    yield
    after = len(list(FDS.iterdir())) if FDS.is_dir() else 0
    # trio may keep descriptors of a worker thread's pipe; a leaked server would have three.
    assert after <= before + 1


async def run_with(bad: McpServer) -> tuple[RunResult, list[str], list[str]]:
    """Run an agent with a faulty and a good server; return the notices and the offered tools."""
    options = agent(call("good__echo", {"word": "hi"}), mcp_servers={"bad": bad, "good": raw()})
    async with open_runtime() as runtime, runtime.stream("Go.", options) as stream:
        notices = [event.text async for event in stream if isinstance(event, Notification)]
        result = stream.result
    assert "hi" in texts(result)[0]
    provider = options.provider
    assert isinstance(provider, ScriptedModel)
    return result, notices, [spec.name for spec in provider.requests[0].tools]


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (StdioServer("no-such-command"), "the command 'no-such-command' cannot start"),
        (
            StdioServer(sys.executable, ["-S", "-c", "raise SystemExit('why')"]),
            "status 1; the end of its stderr: why",
        ),
        (raw("silent", connect_timeout=0.2), "did not answer within 0.2 s"),
        (raw("deep"), "a message that cannot be read"),
        (HttpServer("http://127.0.0.1:9/mcp"), "has failed: ConnectError"),
    ],
    ids=["missing", "exits", "silent", "deep", "http"],
)
async def test_server_that_fails_to_start_is_reported(server: McpServer, reason: str) -> None:
    _, notices, names = await run_with(server)
    (notice,) = notices
    assert re.search(reason, notice)
    assert not any(name.startswith("bad__") for name in names)


@pytest.mark.parametrize("mode", ["garbage", "many"])
async def test_unusual_server_still_works(mode: str) -> None:
    _, notices, names = await run_with(raw(mode))
    found = [name for name in names if name.startswith("bad__")]
    assert len(found) == (MAX_TOOLS if mode == "many" else len(names) - len(found))
    assert [f"the first {MAX_TOOLS}" in notice for notice in notices] == [True] * (mode == "many")


async def test_crash_during_call_gives_error_result() -> None:
    """The next call starts the server again, and the calls of another server are unharmed."""
    options = agent(
        interleave(call("raw__exit"), call("other__hang")),
        call("raw__echo", {"word": "again"}),
        mcp_servers={"raw": raw(), "other": raw()},
        tool_timeout=1.0,
    )
    crashed, unharmed, again = (await run(options)).tool_calls
    assert crashed.is_error
    assert "exited with status 3" in str(crashed.content)
    assert "1 s" in str(unharmed.content)
    assert "again" in str(again.content)


async def test_killed_server_starts_again() -> None:
    options = agent(call("raw__pid"), "One.", call("raw__echo", {"word": "again"}))
    async with open_runtime() as runtime:
        first = await runtime.run("Go.", options, session_id="s")
        os.kill(int(texts(first)[0].split("\n")[3]), signal.SIGKILL)
        while runtime.statistics().tool_servers.connected:
            await wait_all_tasks_blocked(0.01)
        second = await runtime.run("Go.", options, session_id="s")
    assert "again" in texts(second)[0]


async def test_flood_on_stderr_blocks_nothing() -> None:
    assert "flooded" in texts(await run(agent(call("raw__flood"))))[0]


async def test_server_that_ignores_termination_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "EXIT_TIMEOUT", 0.05)
    options = agent(call("raw__pid"), mcp_servers={"raw": raw("deaf")})
    pid = int(texts(await run(options))[0].split("\n")[3])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_huge_result_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 2**20)
    options = agent(call("raw__huge"), call("raw__echo", {"word": "again"}))
    huge, again = (await run(options)).tool_calls
    assert huge.is_error
    assert f"larger than {2**20} bytes" in str(huge.content)
    assert "again" in str(again.content)


async def test_cancelled_run_cancels_its_call() -> None:
    options = agent(
        call("raw__hang"), call("raw__cancelled"), mcp_servers={"raw": raw(shared=True)}
    )
    async with open_runtime() as runtime:
        with trio.move_on_after(0.5):
            await run(options, runtime)
        result = await run(options, runtime)
        assert runtime.statistics().tool_servers.leases == 0
    assert "[]" not in texts(result)[0]


class FailingServer:
    """A server whose connection fails as the flags say."""

    def __init__(self, failures: list[bool]) -> None:
        self._failures = failures
        self.tools_changed: bool = False
        self.is_live: bool = True
        self._over = trio.Event()

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        if self._failures.pop(0):
            raise ToolServerError("it failed")
        await ready()
        await self._over.wait()

    def close(self) -> None:
        self._over.set()

    async def list_tools(self, limit: int) -> list[RemoteTool]:
        return []

    async def call_tool(
        self, name: str, arguments: JsonObject, report: Callable[[JsonValue], None]
    ) -> RemoteResult:
        return RemoteResult(())


async def test_pause_grows_with_every_failure(mock_clock: MockClock) -> None:
    failures = [True, True, True, False]
    owner = ActorLoop("servers")
    link = ServerLink("s", raw(), lambda name, config: FailingServer(failures), owner, ttl=10)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.serve)
        for pause in (0.5, 1.0, 2.0):
            assert await link.prepare() == "it failed"
            assert f"possible in {pause:.1f} s: it failed" in await link.prepare()
            mock_clock.jump(pause)
        assert await link.prepare() == ""
        assert link.is_connected
        link.close()
        await link.wait_closed()
        assert "its session has ended" in await link.prepare()
        owner.close()


async def test_idle_connection_is_closed(mock_clock: MockClock) -> None:
    owner = ActorLoop("servers")
    ended: list[ServerLink] = []
    link = ServerLink(
        "s", raw(), lambda name, config: FailingServer([False]), owner, ttl=10, on_end=ended.append
    )

    async def wait(seconds: float) -> None:
        mock_clock.jump(seconds)
        await wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.serve)
        link.acquire()
        await link.prepare()
        await wait(100)
        assert link.is_connected
        link.release()
        await wait(9)
        link.acquire()
        await wait(100)
        link.release()
        assert link.is_connected
        await wait(11)
        assert not link.is_active
        assert ended == [link]
        owner.close()


async def test_forgotten_links_use_no_memory() -> None:
    """A link disappears with its connection, so that a runtime may have any number of sessions."""
    async with open_runtime(workspace_ttl=0.05) as runtime:
        await run(agent(call("raw__pid")), runtime)
        while runtime.statistics().tool_servers.servers:
            await wait_all_tasks_blocked(0.01)


async def test_wrong_object_is_reported() -> None:
    _, notices, _ = await run_with(InProcessServer("not a server"))
    assert "got a value of type str" in notices[0]

"""An uncaught failure of an endpoint prints a short traceback."""

import socket
import traceback
from collections.abc import Awaitable, Callable

import pytest

from agent_actors import AgentOptions, Client, open_runtime, query
from agent_actors.abc import ModelSink
from agent_actors.domain.model import ModelCompleted, ModelRequest
from agent_actors.errors import MessageError, ProviderConnectError, ProviderError
from agent_actors.runs.output.tracebacks import without_own_frames


async def by_run(options: AgentOptions) -> None:
    async with open_runtime() as runtime:
        await runtime.run("hi", options)


async def by_stream(options: AgentOptions) -> None:
    async with open_runtime() as runtime, runtime.stream("hi", options) as events:
        async for _ in events:
            pass


async def by_query(options: AgentOptions) -> None:
    async with query("hi", options) as messages:
        async for _ in messages:
            pass


async def by_client(options: AgentOptions) -> None:
    async with Client(options) as client:
        await client.query("hi")
        async for _ in client.receive_messages():
            pass


class Unreachable:
    """A user's provider that raises the package's error itself."""

    name = "unreachable"

    async def stream(self, request: ModelRequest, sink: ModelSink) -> ModelCompleted:
        return self.look_up()

    def look_up(self) -> ModelCompleted:
        raise ProviderConnectError("nowhere", endpoint=self.name)


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("ask", [by_run, by_stream, by_query, by_client])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_failed_connection_prints_few_lines(
    ask: Callable[[AgentOptions], Awaitable[None]], host: str
) -> None:
    """The lines show the caller, the public call, one cause, and the message."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://{host}:{server.getsockname()[1]}/v1"
    options = AgentOptions(model="m", base_url=url, api_key="k", max_retries=1)
    with pytest.raises(ProviderConnectError) as caught:
        await ask(options)
    error = caught.value
    lines = "".join(traceback.format_exception(error)).splitlines()
    assert len(lines) <= 25, "\n".join(lines)
    assert sum(line.startswith("Traceback") for line in lines) == 1
    assert sum("exception" in line and line.endswith(":") for line in lines) == 1
    assert isinstance(error.__cause__, OSError)
    assert ask.__name__ in frames(error)


async def test_users_frames_remain_in_traceback() -> None:
    with pytest.raises(ProviderConnectError) as caught:
        await by_run(AgentOptions(model="m", provider=Unreachable(), max_retries=0))
    shown = frames(caught.value)
    assert shown[-2:] == ["stream", "look_up"]
    assert "by_run" in shown


def test_only_provider_errors_lose_frames() -> None:
    """Other errors may be caused by a bug of this package, and keep their traceback."""

    def raising(error: Exception) -> Exception:
        try:
            exec("raise error", {"__name__": "agent_actors.runs.driver", "error": error})
        except Exception as raised:  # noqa: BLE001 - returned
            return raised
        raise AssertionError

    failed, wrong = raising(ProviderError("x", endpoint="e")), raising(MessageError("x"))
    assert frames(without_own_frames(failed)) == ["raising"]
    assert frames(without_own_frames(wrong)) == ["raising", "<module>"]

"""Hints in the errors for calls outside of trio and for values that are not options."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import trio

from agent_actors import AgentOptions, Client, open_runtime, query, run, run_sync
from agent_actors.errors import ConfigError
from agent_actors.runtime.current import require_trio
from tests.client.helpers import agent


async def opens(options: AgentOptions) -> None:
    async with open_runtime():
        raise AssertionError


async def runs(options: AgentOptions) -> None:
    await run("Hi.", options)


async def asks(options: AgentOptions) -> None:
    async with query("Hi.", options):
        raise AssertionError


async def talks(options: AgentOptions) -> None:
    async with Client(options):
        raise AssertionError


@pytest.mark.parametrize("use", [opens, runs, asks, talks])
def test_asyncio_program_gets_a_hint(
    use: Callable[[AgentOptions], Awaitable[None]],
) -> None:
    async def main() -> None:
        await use(agent("Hello.")[0])

    with pytest.raises(RuntimeError, match=r"from agent_actors\.asyncio.*trio\.run\(main\)"):
        asyncio.run(main())


def test_missing_event_loop_gets_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"not running: use `trio\.run\(main\)`"):
        require_trio()
    monkeypatch.delitem(sys.modules, "asyncio")
    with pytest.raises(RuntimeError, match=r"not running: use `trio\.run\(main\)`"):
        require_trio()


async def test_require_trio_returns_the_token() -> None:
    assert require_trio() is trio.lowlevel.current_trio_token()


SECRET = {"model": "m", "api_key": "sk-secret"}
WRONG = (SECRET, "qwen3", None, AgentOptions)


async def tried(use: Callable[..., object], wrong: object) -> None:
    made = use(wrong)
    assert isinstance(made, Awaitable)
    await made


@pytest.mark.parametrize("wrong", WRONG)
async def test_wrong_options_type_gets_a_hint(wrong: object) -> None:
    async with open_runtime() as runtime:

        def streams(options: AgentOptions) -> object:
            return runtime.stream("Hi.", options)

        async def runs_there(options: AgentOptions) -> None:
            await runtime.run("Hi.", options)

        uses: tuple[Callable[..., object], ...] = (Client, asks, runs, streams, runs_there)
        for use in uses:
            with pytest.raises(ConfigError, match=r"^options must be AgentOptions; got a value of"):
                await tried(use, wrong)
            assert runtime.statistics().runs_started == 0


def test_hint_hides_secrets() -> None:
    wrong = cast("Callable[..., object]", run_sync)
    with pytest.raises(ConfigError, match="of type dict; write AgentOptions") as caught:
        wrong("Hi.", SECRET)
    assert "secret" not in str(caught.value)

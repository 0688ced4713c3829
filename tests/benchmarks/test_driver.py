"""The code that the peers' programs share; the peers themselves are not installed here."""

import asyncio
import importlib.util
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.peers_bench import AGENTS, SDK
from benchmarks.peers_setup import PEERS, requirements

WORK: dict[str, object] = {
    "url": "http://x/burst/3/3/v1",
    "warm": "http://x/burst/1/1/v1",
    "turns": 5,
    "at_once": 2,
}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("driver", PEERS / "driver.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DEADLINE", 0.01)
    # The driver pins its process to a CPU, which would pin the tests.
    monkeypatch.delattr("os.sched_setaffinity", raising=False)
    return module


def brief(
    driver: ModuleType,
    turn: Callable[[str, int], Awaitable[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    **changed: object,
) -> dict[str, float]:
    made: list[str] = []

    def make(url: str, tools: bool) -> Callable[[], Awaitable[str]]:
        made.append(url)
        number = 0

        async def one() -> str:
            nonlocal number
            number += 1
            return await turn(url, number)

        return one

    monkeypatch.setattr(sys, "argv", ["driver", json.dumps({**WORK, **changed})])
    driver.main(make)
    assert made == [WORK["warm"], WORK["url"]]
    found: dict[str, float] = json.loads(capsys.readouterr().out)
    return found


def test_all_turns_except_warm_up_are_counted(
    driver: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[object] = []

    async def turn(url: str, number: int) -> str:
        await asyncio.sleep(0)
        done.append(url)
        return "a b c"

    cost = brief(driver, turn, monkeypatch, capsys)
    assert (cost["count"], cost["hung"]) == (15, 0)
    assert done == [WORK["warm"], *[WORK["url"]] * 5]


def test_hanging_turn_is_abandoned_and_counted(
    driver: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def turn(url: str, number: int) -> str:
        if url == WORK["url"] and number == 2:
            await asyncio.Event().wait()
        return "a b c"

    cost = brief(driver, turn, monkeypatch, capsys)
    assert (cost["count"], cost["hung"]) == (12, 1)


def test_hanging_turn_is_excluded_from_times(
    driver: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def turn(url: str, number: int) -> str:
        if url == WORK["url"]:
            await asyncio.Event().wait()
        return "a"

    cost = brief(driver, turn, monkeypatch, capsys, turns=1)
    assert (cost["count"], cost["hung"], cost["wall"]) == (0, 1, 0)


def test_every_peer_is_pinned_with_its_program() -> None:
    for peer, needed in requirements().items():
        assert (PEERS / f"use_{peer}.py").is_file()
        assert needed
        assert all(name.count("==") == 1 for name in needed)


def test_every_contender_uses_a_peer_environment() -> None:
    for one in (SDK, *AGENTS):
        *_, python, program = one.command
        assert Path(python).parts[-3] in requirements()
        assert Path(program).is_file()

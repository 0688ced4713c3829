"""State that runs leave in their sessions: numbers, times and metadata, also after evictions."""

import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Tool, open_runtime, tool
from agent_actors.abc import SessionStore
from agent_actors.actors.session_log import SWEEP_EVERY
from agent_actors.domain.json import JsonObject
from agent_actors.errors import SessionBusy
from agent_actors.events import SystemInit
from agent_actors.hooks import HookContext, HookDecision
from agent_actors.permissions import PermissionPolicy
from agent_actors.testing import ScriptedEndpoint, ScriptedModel, call, hang
from tests.runs.helpers import check_records
from tests.runs.hooks.helpers import USE, echo
from tests.runtime.sessions.helpers import DISK, STORES, contents, talk, talker, when_free

MakeStore = Callable[[Path], SessionStore]


def echo_back(arguments: JsonObject) -> JsonObject:
    return arguments


everywhere = pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
on_disk = pytest.mark.parametrize("make", DISK.values(), ids=DISK.keys())


@everywhere
@pytest.mark.feature("OAGS-008")
async def test_event_times_are_epoch_seconds(make: MakeStore, tmp_path: Path) -> None:
    async with open_runtime(store=make(tmp_path / "store")) as runtime:
        async with runtime.stream("Go.", talker(*USE), session_id="s") as events:
            stamps = [event.ts async for event in events]
        stamps += [record.ts for record in await runtime.sessions.records("s")]
        stamps.append(runtime.notify("Look.").ts)
    assert events.result is not None
    stamps += [at for one in events.result.tool_calls for at in (one.started_at, one.completed_at)]
    day = 86_400.0
    assert all(abs(stamp - time.time()) < day for stamp in stamps)


@everywhere
@pytest.mark.feature("OAGS-007", "OAGS-009")
async def test_records_are_numbered_with_monotonic_time(make: MakeStore, tmp_path: Path) -> None:
    times = itertools.cycle([5.0, 7.0, 3.0, 9.0, 1.0])
    async with open_runtime(store=make(tmp_path / "store")) as runtime:
        runtime._actors.log._wall_clock = lambda: next(times)
        for _ in range(3):
            await talk(runtime, *USE)
        records = await runtime.sessions.records("s")
    check_records(records)
    stamps = [record.ts for record in records]
    assert stamps == sorted(stamps)
    assert {5.0, 7.0, 9.0} <= set(stamps)


@pytest.mark.feature("OAGS-075")
@pytest.mark.parametrize("blocked", [False, True])
async def test_allowed_tools_are_the_offered_ones(blocked: bool) -> None:
    @tool
    async def extra() -> str:
        """Another."""
        return "extra"

    async def plan(event: object, ctx: HookContext) -> HookDecision | None:
        ctx.register_tool(extra)
        return HookDecision(continue_=False) if blocked else None

    policy = PermissionPolicy(disallowed_tools=["no_*"], deny=["secret"])
    tools = [Tool(name, "", None, echo_back) for name in ("echo", "no_way", "secret")]
    options = attrs.evolve(
        talker("Fine."), tools=tools, permissions=policy, hooks={"before_agent": plan}
    )
    async with open_runtime() as runtime:
        await runtime.run("Go.", options, session_id="s")
        info = await runtime.sessions.info("s")
        assert info is not None
        (init,) = [e for e in await runtime.sessions.records("s") if isinstance(e, SystemInit)]
    assert (list(init.tools), info.metadata["allowed_tools"]) == (["echo", "extra"],) * 2


@everywhere
@pytest.mark.feature("OAGS-073", "OAGS-074", "OAGS-075", "OAGS-079")
async def test_run_records_its_environment(make: MakeStore, tmp_path: Path) -> None:
    @tool
    async def search() -> str:
        """Search."""
        return "found"

    options = attrs.evolve(
        talker("Fine.", "Fine."),
        cwd=tmp_path,
        agent_name="scout",
        tools=[echo, search],
        permissions=PermissionPolicy(disallowed_tools=["search"]),
    )
    async with open_runtime(store=make(tmp_path / "store")) as runtime:
        await runtime.run("Go.", options, session_id="s")
        info = await runtime.sessions.info("s")
        assert info is not None
        assert info.metadata == {
            "cwd": str(tmp_path),
            "provider_name": "ScriptedModel",
            "model": "m",
            "setting_sources": [],
            "allowed_tools": ["echo"],
            "agent_name": "scout",
        }
        await runtime.sessions.annotate("s", {"title": "t"})
        other = attrs.evolve(options, model="n", agent_name=None, permissions=None)
        await runtime.run("Go.", other, session_id="s", tool_whitelist=["search"])
        info = await runtime.sessions.info("s")
        assert info is not None
        assert info.metadata["title"] == "t"
        assert (info.metadata["model"], info.metadata["allowed_tools"]) == ("n", ["search"])
        assert "agent_name" not in info.metadata


async def test_profile_provider_is_recorded_by_name() -> None:
    async with ScriptedEndpoint(["Fine."]) as endpoint, open_runtime() as runtime:
        options = AgentOptions(provider="ollama", base_url=endpoint.base_url, model="m")
        await runtime.run("Go.", options, session_id="s")
        info = await runtime.sessions.info("s")
        assert info is not None
        assert info.metadata["provider_name"] == "ollama"
        assert endpoint.base_url not in str(info.metadata)


@everywhere
@pytest.mark.feature("OAGS-077", "OAGS-078", "OAGS-079")
async def test_child_session_is_found_by_parent(make: MakeStore, tmp_path: Path) -> None:
    async with open_runtime(store=make(tmp_path / "store")) as runtime:

        @tool
        async def delegate() -> str:
            """Run another agent."""
            helper = attrs.evolve(talker("Done."), agent_name="helper")
            return (await runtime.run("Do it.", helper, session_id="child")).text

        parent = attrs.evolve(
            talker(), provider=ScriptedModel([call("delegate", {}), "Done."]), tools=[delegate]
        )
        result = await runtime.run("Go.", parent, session_id="parent")
        page = await runtime.list_sessions(where={"parent_session_id": "parent"})
        (child,) = page.sessions
        assert child.session_id == "child"
        assert child.metadata["parent_tool_use_id"] == result.tool_calls[0].id
        assert child.metadata["agent_name"] == "helper"
        found = await runtime.sessions.info("parent")
        assert found is not None
        assert "parent_session_id" not in found.metadata
        await talk(runtime, "On my own.", session_id="child")
        again = await runtime.sessions.info("child")
        assert again is not None
        assert again.metadata["parent_session_id"] == "parent", "the parent session stays recorded"


@pytest.mark.feature("WICK-029")
async def test_idle_session_leaves_after_an_hour(autojump_clock: MockClock) -> None:
    async with open_runtime() as runtime:
        await talk(runtime, "One.")
        await trio.sleep(1800)
        await talk(runtime, "Two.")
        await trio.sleep(3599)
        assert runtime.history("s") is not None
        await trio.sleep(2 * SWEEP_EVERY)
        assert runtime.history("s") is None


@on_disk
async def test_idle_session_reloads_unchanged(make: MakeStore, tmp_path: Path) -> None:
    async with open_runtime(store=make(tmp_path / "store"), max_sessions=1) as runtime:
        for turn in range(3):
            for name in ("a", "b"):
                await talk(runtime, f"{name}{turn}", session_id=name)
        assert runtime.history("a") is None
        assert runtime.statistics().log.evicted >= 4
        for name in ("a", "b"):
            said = await contents(runtime, name)
            assert said == [text for turn in range(3) for text in ("Go.", f"{name}{turn}")]
            check_records(await runtime.sessions.records(name))


# Two openings of one store.


@on_disk
async def test_session_alternates_between_two_runtimes(make: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_runtime(store=make(path)) as one, open_runtime(store=make(path)) as two:
        for turn in range(2):
            for at, runtime in enumerate((one, two)):
                await when_free(partial(talk, runtime, f"{at}.{turn}"))
        wanted = [text for turn in "01" for at in "01" for text in ("Go.", f"{at}.{turn}")]
        for runtime in (one, two):
            assert await contents(runtime) == wanted
            check_records(await runtime.sessions.records("s"))


@on_disk
async def test_session_deleted_elsewhere_starts_anew(make: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_runtime(store=make(path)) as one, open_runtime(store=make(path)) as two:
        await talk(one, "One.")
        assert await when_free(partial(two.sessions.delete, "s"))
        await when_free(partial(talk, one, "Two."))
        assert await contents(one) == ["Go.", "Two."]
        await when_free(partial(talk, two, "Three."))
        assert await two.sessions.delete("s")
        await talk(two, "Four.")
        await when_free(partial(talk, one, "Five."))
        wanted = ["Go.", "Four.", "Go.", "Five."]
        assert await contents(one) == wanted
        history = one.history("s")
        assert history is not None
        assert [message.content for message in history] == wanted, "not the history in memory"
        check_records(await one.sessions.records("s"))


@on_disk
async def test_session_held_elsewhere_is_readable(make: MakeStore, tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_runtime(store=make(path)) as one, open_runtime(store=make(path)) as two:
        await talk(two, "One.")
        await when_free(partial(talk, one, "Two."))
        async with one.stream("Go.", talker([hang()]), session_id="s") as events:
            async for event in events:
                if event.type == "user.message":
                    break
            with pytest.raises(SessionBusy, match="another process"):
                await talk(two, "No.")
            for change in (two.sessions.delete, two.sessions.reset):
                with pytest.raises(SessionBusy, match="another process"):
                    await change("s")
            assert await contents(two) == ["Go.", "One.", "Go.", "Two.", "Go."]
            assert await two.sessions.check("s") == ()
            fork = await two.sessions.fork("s", 2)
            assert await contents(two, fork) == ["Go."]
            await talk(two, "Mine.", session_id="other")
        await when_free(partial(talk, two, "Now."))
        assert (await contents(two) or [])[-1] == "Now."

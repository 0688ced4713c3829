"""The tool `Task`: its result, its agents, their sessions, and what it refuses."""

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import (
    AgentDefinition,
    PermissionPolicy,
    Tool,
    ToolOutput,
    Usage,
    open_runtime,
    tool,
)
from agent_actors.domain.events import SubagentStarted
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ProviderStatusError
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import Turn, call, fail, hang, pause, say, usage
from tests.runs.helpers import check_history, check_quiet, check_records
from tests.subagents.helpers import WORKER, data_of, start_once, task, team

THREE_DEEP = "[[[[]]]]"


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


@pytest.mark.feature("OAGS-080", "OAGS-081", "OAGS-082", "WICK-103", "ASDK-119")
async def test_task_returns_result_of_agent() -> None:
    store = MemoryStore()
    script = start_once(task("Look it up."), "Done.", worker=[say("Found."), usage(5, 2)])
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("go", team(script, tools=[look]), session_id="s")
        data = data_of(result)
        child = str(data["child_session_id"])
        info = await runtime.sessions.snapshot(child)
    assert info is not None
    assert result.text == "Done."
    assert str(result.tool_calls[0].content).startswith("Found.")
    assert (data["text"], data["stop_reason"]) == ("Found.", "completed")
    assert data["usage"] == {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    (one,) = result.subagents
    assert (one.agent_name, one.session_id, one.text) == ("worker", child, "Found.")
    assert result.usage_total == result.usage + Usage(5, 2)
    call_id = result.tool_calls[0].id
    assert info.metadata["agent_name"] == "worker"
    assert info.metadata["parent_session_id"] == "s"
    assert info.metadata["parent_tool_use_id"] == call_id
    assert info.metadata["allowed_tools"] == ["look", "Task"]
    records = await store.load("s")
    started = next(one for one in records if isinstance(one, SubagentStarted))
    assert (started.child_session_id, started.tool_use_id) == (child, call_id)
    assert started.ts <= (await store.load(child))[0].ts
    check_records(records)


async def test_several_tasks_run_in_parallel(autojump_clock: MockClock) -> None:
    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        if request.system_prompt == WORKER.prompt:
            return [pause(10), say(f"Did {last.content}.")]
        return "Done." if last.role == "tool" else [task("A"), task("B"), task("C")]

    async with open_runtime(tools_per_runtime=1) as runtime:
        start = trio.current_time()
        result = await runtime.run("go", team(script))
        assert trio.current_time() - start == pytest.approx(10)
        check_quiet(runtime)
    assert [data_of(result, n)["text"] for n in range(3)] == ["Did A.", "Did B.", "Did C."]


async def test_unknown_agent_is_error_with_names() -> None:
    script = start_once(task("x", agent="cook"), "Done.")
    async with open_runtime() as runtime:
        result = await runtime.run("go", team(script))
    (made,) = result.tool_calls
    assert made.is_error
    assert made.content == "there is no agent 'cook'; the agents are: worker"
    assert result.subagents == ()


async def test_agent_gets_only_its_tools() -> None:
    offered: dict[str, list[str]] = {}

    @tool
    async def extra() -> str:
        """Do more."""
        return "more"

    def script(request: ModelRequest) -> Turn:
        offered[request.system_prompt] = [one.name for one in request.tools]
        last = request.messages.last()
        assert last is not None
        if request.system_prompt or last.role == "tool":
            return "Done."
        return [task("x", agent=name) for name in ("all", "none", "named")]

    agents = {
        "all": AgentDefinition("a", "all"),
        "none": AgentDefinition("n", "none", tools=()),
        "named": AgentDefinition("m", "named", tools=["look", extra]),
    }
    outside = Tool("outside", "Done by the caller.", None)
    async with open_runtime() as runtime:
        await runtime.run("go", team(script, agents, tools=[look, outside]))
    assert offered == {
        "": ["look", "outside", "Task"],
        "all": ["look", "Task"],
        "none": [],
        "named": ["look", "extra"],
    }


@pytest.mark.feature("ASDK-105")
async def test_agent_may_have_its_own_model() -> None:
    models: list[str] = []

    def script(request: ModelRequest) -> Turn:
        models.append(request.settings.model)
        return "Done." if len(models) > 1 else [task("x")]

    agents = {"worker": attrs.evolve(WORKER, model="small")}
    async with open_runtime() as runtime:
        await runtime.run("go", team(script, agents))
    assert models == ["m", "small", "m"]


async def test_agent_may_inherit_the_conversation() -> None:
    seen: list[str] = []

    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        if request.system_prompt:
            request.messages.validate()
            seen.extend(one.content for one in request.messages)
            return "Worked."
        return "Done." if last.role == "tool" else [say("I ask."), task("part")]

    agents = {"worker": attrs.evolve(WORKER, inherit_context=True)}
    async with open_runtime() as runtime:
        result = await runtime.run("the whole", team(script, agents))
    assert result.text == "Done."
    assert seen == ["the whole", "part"]


@pytest.mark.feature("ASDK-119")
async def test_handlers_do_tasks() -> None:
    async def shout(prompt: str) -> str:
        await trio.lowlevel.checkpoint()
        return prompt.upper()

    def count(prompt: str) -> dict[str, int]:
        return {"characters": len(prompt)}

    def broken(prompt: str) -> str:
        raise ValueError(f"cannot do {prompt}")

    def refuse(prompt: str) -> ToolOutput:
        return ToolOutput(f"no {prompt}", is_error=True, untrusted=True)

    agents = {
        "shout": AgentDefinition("Shouts.", handler=shout),
        "count": AgentDefinition("Counts.", handler=count),
        "broken": AgentDefinition("Fails.", handler=broken),
        "refuse": AgentDefinition("Refuses.", handler=refuse),
    }
    script = start_once([task("abc", agent=name) for name in agents], "Done.")
    async with open_runtime() as runtime:
        result = await runtime.run("go", team(script, agents))
    assert [one.is_error for one in result.tool_calls] == [False, False, True, True]
    assert [one.untrusted for one in result.tool_calls] == [False, False, False, True]
    ended = {one.agent_name: one for one in result.subagents}
    assert ended["shout"].text == "ABC"
    assert ended["count"].text == '{"characters": 3}'
    assert ended["broken"].error == "ValueError: cannot do abc"
    assert "cannot do abc" in str(result.tool_calls[2].content)
    assert ended["refuse"].error == "no abc"


async def test_failing_agent_is_error_result(autojump_clock: MockClock) -> None:
    turns: list[Turn] = [[task("broken"), task("hanging"), task("flooding")], "Done."]

    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        match last.content if request.system_prompt else "":
            case "broken":
                raise RuntimeError("the provider crashed")
            case "hanging":
                return hang()
            case "flooding":
                return [say(*["x"] * 500), fail(_status(400))]
            case _:
                return turns.pop(0)

    agents = {"worker": attrs.evolve(WORKER, timeout=30)}
    async with open_runtime() as runtime:
        async with runtime.stream("go", team(script, agents, child_events=True)) as events:
            async for _ in events:
                pass
        result = events.result
        check_quiet(runtime)
    assert result.text == "Done."
    assert [one.is_error for one in result.tool_calls] == [True, True, True]
    errors = {str(one.error).partition(":")[0] for one in result.subagents}
    assert errors == {"ProviderError", "RunDeadlineExceeded", "ProviderStatusError"}
    check_history(result.messages)


def _status(status: int) -> ProviderStatusError:
    return ProviderStatusError(endpoint="m", status=status, body_message="no", headers={})


async def test_agents_nest_only_three_deep() -> None:
    async with open_runtime() as runtime:
        result = await runtime.run(THREE_DEEP, team())
        sessions = (await runtime.sessions.list()).sessions
    assert [one.is_error for one in result.tool_calls] == [False]
    offered = [one.metadata["allowed_tools"] for one in sessions]
    assert sorted(map(str, offered)) == ["['Task']"] * 3 + ["[]"]


async def test_task_continues_a_session() -> None:
    seen: list[int] = []

    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        if request.system_prompt:
            seen.append(len(request.messages))
            return "Worked."
        if last.role == "tool" and "resume='" in last.content and len(seen) == 1:
            child = last.content.rpartition("resume='")[2].partition("'")[0]
            return [task("and now?", resume=child), task("x", resume="elsewhere")]
        return "Done." if last.role == "tool" else task("begin")

    async with open_runtime() as runtime:
        result = await runtime.run("go", team(script))
    first, second, third = result.tool_calls
    assert seen == [1, 3]
    assert data_of(result, 0)["child_session_id"] == data_of(result, 1)["child_session_id"]
    assert (first.is_error, second.is_error, third.is_error) == (False, False, True)
    assert "has not started an agent 'worker' on the session 'elsewhere'" in str(third.content)


async def test_permissions_of_parent_bind_agent() -> None:
    def script(request: ModelRequest) -> Turn:
        last = request.messages.last()
        assert last is not None
        if last.role == "tool":
            return last.content
        return call("look", {"where": "/etc"}) if request.system_prompt else task("x")

    agents = {"worker": attrs.evolve(WORKER, permissions="bypass")}
    policy = PermissionPolicy(mode="bypass", deny=["look"])
    async with open_runtime() as runtime:
        result = await runtime.run("go", team(script, agents, tools=[look], permissions=policy))
    assert data_of(result)["text"] == "unknown tool 'look'; the available tools are: Task"

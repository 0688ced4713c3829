"""Tools, hooks and callbacks of users run in the event loop, in worker threads, or on trio."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import attrs
import pytest
import sniffio
import trio

from agent_actors import (
    AgentOptions,
    Hook,
    HookContext,
    HookDecision,
    PermissionPolicy,
    PreToolUseEvent,
    RunResult,
    ToolContext,
    ToolOutput,
    ToolUseBlock,
    tool,
)
from agent_actors.asyncio import open_runtime, query
from agent_actors.asyncio.bridge import ToolLoop
from agent_actors.permissions import PermissionRequest
from agent_actors.testing import MemoryWorkspace, call, say
from tests.asyncio.helpers import agent, in_loop_thread, run

tenant: ContextVar[str] = ContextVar("tenant", default="")


def content(options: AgentOptions, *, tool_loop: ToolLoop = "asyncio") -> str:
    """Run an agent that calls one tool, and return the content of the tool's result."""

    async def main() -> RunResult:
        async with open_runtime(tool_loop=tool_loop) as runtime:
            return await runtime.run("Hi.", options)

    return str(run(main).tool_calls[0].content)


def test_async_tool_runs_in_the_loop() -> None:
    @tool
    async def where() -> str:
        """Describe the place of this call."""
        await asyncio.sleep(0)
        return f"{in_loop_thread()} {sniffio.current_async_library()} {tenant.get()}"

    tenant.set("acme")
    assert content(agent([call("where", {})], "ok", tools=(where,))) == "True asyncio acme"


def test_sync_tool_runs_in_a_worker_thread() -> None:
    @tool
    def where() -> str:
        """Describe the place of this call."""
        return f"{in_loop_thread()} {tenant.get()}"

    tenant.set("acme")
    assert content(agent([call("where", {})], "ok", tools=(where,))) == "False acme"


def test_trio_tools_can_be_chosen() -> None:
    @tool
    async def where() -> str:
        """Describe the place of this call."""
        await trio.lowlevel.checkpoint()
        return sniffio.current_async_library()

    options = agent([call("where", {})], "ok", tools=(where,))
    assert content(options, tool_loop="trio") == "trio"


def test_tool_calls_a_tool_from_the_loop() -> None:
    @tool
    async def inner(text: str) -> str:
        """Return the text and the place of this call."""
        await asyncio.sleep(0)
        return f"{text} {in_loop_thread()}"

    @tool
    async def outer(ctx: ToolContext) -> str:
        """Call the other tool."""
        result = await ctx.call_tool("inner", {"text": "ok"})
        return f"{result.content} {in_loop_thread()}"

    options = agent([call("outer", {})], "ok", tools=(outer, inner))
    assert content(options) == "ok True True"


def test_builtin_tools_and_workspaces_work() -> None:
    @tool
    async def size(path: str, ctx: ToolContext) -> int:
        """Return the size of a file."""
        assert ctx.workspace is not None
        assert ctx.background is None or ctx.background.list() == ()
        return len((await ctx.workspace.read(path)).data)

    turn = [call("Read", {"file_path": "a.txt"}), call("size", {"path": "a.txt"})]
    options = attrs.evolve(
        agent(turn, "ok", tools=(size,)),
        builtin_tools=("Read",),
        workspace=MemoryWorkspace({"a.txt": b"Hello."}),
    )

    async def main() -> None:
        async with open_runtime() as runtime:
            calls = (await runtime.run("Hi.", options)).tool_calls
        found = {one.name: str(one.content) for one in calls}
        assert "Hello." in found["Read"]
        assert found["size"] == "6"

    run(main)


def test_tool_may_call_back_into_the_runtime() -> None:
    """The nested run knows its ancestors: their sessions are busy, and their hooks apply."""
    denied: list[str] = []

    class Gate(Hook):
        async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> HookDecision:
            denied.append(event.tool_name)
            return HookDecision(continue_=not event.nested, reason="nested")

    @tool
    def inner() -> str:
        """Do something."""
        return "ran"

    async def main() -> None:
        async with open_runtime() as runtime:

            @tool
            async def delegate() -> str:
                """Start a nested run."""
                nested = agent([call("inner", {})], "Nested.", tools=(inner,))
                result = await runtime.run("Hi.", nested, session_id="child")
                try:
                    await runtime.run("Hi.", nested, session_id="parent")
                except Exception as error:  # noqa: BLE001 - its type is the result
                    return f"{result.tool_calls[0].content} {type(error).__name__}"
                return ""

            options = attrs.evolve(
                agent([call("delegate", {})], "ok", tools=(delegate,)), hooks=[Gate()]
            )
            outer = await runtime.run("Hi.", options, session_id="parent")
            assert "nested" in str(outer.tool_calls[0].content)
            assert "SessionBusy" in str(outer.tool_calls[0].content)
            info = await runtime.sessions.info("child")
            assert info is not None
            assert info.metadata["parent_session_id"] == "parent"
        assert denied == ["delegate", "inner"]

    run(main)


def test_tool_may_use_query() -> None:
    @tool
    async def ask() -> str:
        """Ask another agent."""
        async with query("Hi.", agent([say("Nested.")])) as messages:
            return "".join([b.text async for m in messages for b in m.content if b.type == "text"])

    assert content(agent([call("ask", {})], "ok", tools=(ask,))) == "Nested."


def test_loop_cancelled_tool_is_an_error() -> None:
    @tool
    async def cancelled() -> str:
        """Be cancelled, as by a loop that shuts down."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return "never"

    assert content(agent([call("cancelled", {})], "ok", tools=(cancelled,))) == (
        "tool 'cancelled' raised RuntimeError: the asyncio event loop cancelled it"
    )


def test_tool_exception_and_timeout_are_error_results() -> None:
    ended: list[str] = []

    @tool
    async def fails() -> str:
        """Fail."""
        raise ValueError("no luck")

    @tool(timeout=0.02)
    async def slow() -> str:
        """Take too long."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")
        return ""

    async def main() -> None:
        options = agent([call("fails", {}), call("slow", {})], "ok", tools=(fails, slow))
        async with open_runtime() as runtime:
            calls = (await runtime.run("Hi.", options)).tool_calls
        found = {one.name: one for one in calls}
        assert found["fails"].content == "tool 'fails' raised ValueError: no luck"
        assert isinstance(found["fails"].exception, ValueError)
        assert "did not finish within 0.02 s" in str(found["slow"].content)
        assert ended == ["slow"]

    run(main)


class Wrapping(Hook):
    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    async def wrap_tool_call(
        self,
        call: ToolUseBlock,
        call_next: Callable[[ToolUseBlock], Awaitable[ToolOutput]],
        ctx: HookContext,
    ) -> ToolOutput:
        await asyncio.sleep(0)
        self.seen.append(("wrap", in_loop_thread()))
        output = await call_next(call)
        return ToolOutput(f"wrapped {output.content}")

    async def session_end(self, event: object, ctx: HookContext) -> None:
        await asyncio.sleep(0)
        self.seen.append(("end", in_loop_thread()))


def test_hooks_run_in_the_loop() -> None:
    hook = Wrapping()

    @tool
    def work() -> str:
        """Work."""
        return "done"

    options = attrs.evolve(agent([call("work", {})], "ok", tools=(work,)), hooks=[hook])
    assert content(options) == "wrapped done"
    assert hook.seen == [("wrap", True), ("end", True)]


def test_sync_hook_runs_in_a_worker_thread() -> None:
    seen: list[bool] = []

    def note(event: PreToolUseEvent) -> None:
        seen.append(in_loop_thread())

    async def allow(event: PreToolUseEvent) -> None:
        seen.append(in_loop_thread())

    def allow_later(event: PreToolUseEvent) -> Awaitable[None]:
        return allow(event)

    @tool
    def work() -> str:
        """Work."""
        return "done"

    hooks = {"pre_tool_use": [note, allow, allow_later]}
    options = attrs.evolve(agent([call("work", {})], "ok", tools=(work,)), hooks=hooks)
    assert content(options) == "done"
    assert seen == [False, True, True]


@pytest.mark.parametrize("is_async", [True, False])
def test_permission_callback_runs_where_it_belongs(is_async: bool) -> None:
    seen: list[bool] = []

    async def decides(request: PermissionRequest) -> bool:
        await asyncio.sleep(0)
        seen.append(in_loop_thread())
        return True

    def decides_at_once(request: PermissionRequest) -> bool:
        seen.append(in_loop_thread())
        return True

    @tool
    def work() -> str:
        """Work."""
        return "done"

    options = attrs.evolve(
        agent([call("work", {})], "ok", tools=(work,)),
        permissions=PermissionPolicy(ask=["work"]),
        can_use_tool=decides if is_async else decides_at_once,
    )
    assert content(options) == "done"
    assert seen == [is_async]

"""An executor, runs and calls for the tool tests."""

from pathlib import Path

import attrs
import trio

from agent_actors.actors.tool_executor import RunTools, ToolExecutor
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.events import EventBuilder
from agent_actors.domain.json import JsonValue
from agent_actors.domain.run import RunInfo, ToolCallResult
from agent_actors.kernel.request import Request
from agent_actors.tools import Tool


@attrs.define(eq=False)
class Progress:
    """The progress reports of a run's calls."""

    told: list[tuple[str, str, JsonValue]] = attrs.field(factory=list[tuple[str, str, JsonValue]])

    def __call__(self, call_id: str, name: str, progress: JsonValue) -> None:
        self.told.append((call_id, name, progress))


def _record_nothing(event: EventBuilder, call_id: str) -> None:
    raise AssertionError(f"{call_id} recorded {event}")


def run_of(
    *tools: Tool, run_id: str = "run", timeout: float = 300.0, progress: Progress | None = None
) -> RunTools:
    info = RunInfo("session", run_id, "request", iteration=1, started_at=1.0)
    return RunTools(
        run_id,
        {item.name: item for item in tools},
        Path("/somewhere"),
        info=lambda: info,
        on_progress=progress or Progress(),
        on_record=_record_nothing,
        timeout=timeout,
    )


def call_of(name: str | Tool, number: int = 0, **arguments: JsonValue) -> ToolUseBlock:
    name = name if isinstance(name, str) else name.name
    return ToolUseBlock(f"call-{number}", name, arguments)


async def submit(
    executor: ToolExecutor, run: RunTools, *calls: ToolUseBlock
) -> list[Request[ToolCallResult]]:
    return [await executor.submit(run, call) for call in calls]


async def results(requests: list[Request[ToolCallResult]]) -> list[ToolCallResult]:
    return [await request.wait() for request in requests]


async def run_one(executor: ToolExecutor, run: RunTools, call: ToolUseBlock) -> ToolCallResult:
    (result,) = await results(await submit(executor, run, call))
    return result


def nothing_is_held(executor: ToolExecutor) -> bool:
    found = executor.statistics()
    slots = (found.tools.used, found.tools.waiting, found.threads.used, found.threads.waiting)
    return slots == (0, 0, 0, 0) and not found.abandoned and not executor.owner.statistics().live


class Crowd:
    """A tool that counts its concurrent calls, which return when the test sets `leave`."""

    def __init__(
        self, name: str = "crowd", *, max_concurrency: int | None = None, exclusive: bool = False
    ) -> None:
        self.inside = 0
        self.peak = 0
        self.leave = trio.Event()
        self.tool = Tool(
            name, "", None, self._enter, max_concurrency=max_concurrency, exclusive=exclusive
        )

    async def _enter(self, _: dict[str, JsonValue]) -> str:
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        try:
            await self.leave.wait()
        finally:
            self.inside -= 1
        return "left"

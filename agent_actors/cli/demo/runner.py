"""Runs many sessions at once, each streaming and running tools in parallel.

A demo opens an endpoint, unless one is given, and a runtime. All sessions send their prompts at
once, and some sessions try to start a second run while they are busy. Then the demo closes the
runtime and counts leaked tasks and connections.
"""

import math
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors import AgentError, AgentOptions, Runtime, open_runtime
from agent_actors.cli.demo.tally import Tally, faults_of
from agent_actors.cli.demo.workload import SYSTEM_PROMPT, demo_prompt, demo_tools
from agent_actors.cli.outcome import FAILED
from agent_actors.domain.events import (
    AnyEvent,
    AssistantDelta,
    AssistantThinking,
    ToolResult,
    ToolUse,
)
from agent_actors.errors import SessionBusy
from agent_actors.profiles.resolve import NO_API_KEY
from agent_actors.testing import ScriptedEndpoint, demo_script

# One in this many sessions tries to start a second run while it is busy.
_TRY_BUSY_EVERY: Final = 10
# Maximum number of seconds to wait until ended tasks and closed connections are gone. Only a demo
# with a leak waits that long.
_GRACE: Final = 2.0
_POLL: Final = 0.005
# Descriptors needed in addition to those of the streams, for standard streams, epoll and imports.
_OTHER_DESCRIPTORS: Final = 200
_DESCRIPTORS: Final = Path("/dev/fd")
# Maximum number of tokens per response: enough for all calls and two sentences, with any model.
_MAX_TOKENS: Final = 2048
# Number of deltas in the last response of each run: enough to keep the streams active for a while.
DELTAS: Final = 50


@attrs.frozen(kw_only=True)
class DemoPlan:
    """The plan of a demo.

    Attributes:
        sessions: Number of sessions, which all run at once.
        tools: Number of tool calls to request per prompt.
        turns: Number of prompts per session, one after the other.
        provider: Profile name of a real endpoint; None: no profile.
        base_url: URL of a real endpoint; without URL and provider, the embedded endpoint is used.
        model: The model's name at the real endpoint.
        api_key: The API key of the real endpoint.
    """

    sessions: int
    tools: int
    turns: int = 1
    provider: str | None = None
    base_url: str = ""
    model: str = ""
    api_key: str = NO_API_KEY

    @property
    def embedded(self) -> bool:
        """True if the demo uses the embedded endpoint."""
        return not self.base_url and self.provider is None


@attrs.frozen
class Snapshot:
    """The state of a running demo.

    Attributes:
        tally: The counts so far; this object keeps changing.
        live_streams: The number of active streams.
        seconds: Seconds since the first run began.
    """

    tally: Tally
    live_streams: int
    seconds: float


class Demo:
    """One demo.

    Args:
        plan: The plan of the demo.

    Attributes:
        tally: The counts so far.
        finished: True when the counts are complete.
    """

    def __init__(self, plan: DemoPlan) -> None:
        self.plan = plan
        self.tally: Tally = Tally()
        self.finished: bool = False
        self._runtime: Runtime | None = None

    async def drive(self) -> int:
        """Run the demo.

        Returns:
            The exit status.

        Raises:
            AgentError: The runtime failed, or the plan is not feasible.

        Cancellation: safe; no task or connection is left.
        """
        _allow_descriptors(2 * self.plan.sessions + _OTHER_DESCRIPTORS)
        if not self.plan.embedded:
            before = _open_sockets()
            await self._drive(self.plan.base_url, self.plan.model)
            await _until(lambda: _open_sockets() <= before)
            self.tally.leaked_connections = _open_sockets() - before
        else:
            async with ScriptedEndpoint(demo_script(self.plan.tools, deltas=DELTAS)) as endpoint:
                await self._drive(endpoint.base_url, "scripted")
                await _until(lambda: endpoint.open_connections == 0)
                self.tally.leaked_connections = endpoint.open_connections
        self.finished = True
        return FAILED if self.faults() else 0

    def faults(self) -> list[str]:
        """Return the failures of a finished demo, one line each."""
        return faults_of(self.tally, runs=self.plan.sessions * self.plan.turns)

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        runtime = self._runtime
        endpoints = () if runtime is None else runtime.statistics().endpoints
        started = self.tally.started_at
        return Snapshot(
            tally=self.tally,
            live_streams=sum(endpoint.streams.used for endpoint in endpoints),
            seconds=trio.current_time() - started if started else 0.0,
        )

    async def _drive(self, base_url: str, model: str) -> None:
        plan, tally = self.plan, self.tally
        options = AgentOptions(
            model=model,
            base_url=base_url,
            provider=plan.provider,
            system_prompt=SYSTEM_PROMPT,
            tools=demo_tools(tally.tools) if plan.tools else (),
            max_tokens=_MAX_TOKENS,
            temperature=None,
            api_key=plan.api_key,
        )
        before = _tasks()
        async with open_runtime(streams_per_endpoint=math.inf) as runtime:
            self._runtime = runtime
            tally.started_at = trio.current_time()
            async with trio.open_nursery() as nursery:
                for number in range(plan.sessions):
                    nursery.start_soon(self._session, runtime, options, number)
            tally.seconds = trio.current_time() - tally.started_at
        await _until(lambda: _tasks() <= before)
        tally.leaked_tasks = _tasks() - before

    async def _session(self, runtime: Runtime, options: AgentOptions, number: int) -> None:
        session = f"demo-{number}"
        for turn in range(self.plan.turns):
            intrude = turn == 0 and number % _TRY_BUSY_EVERY == 0
            try:
                await self._run(runtime, options, session, intrude=intrude)
            except AgentError as error:
                self.tally.failures.append(error)
                return
        self.tally.sessions += 1

    async def _run(
        self, runtime: Runtime, options: AgentOptions, session: str, *, intrude: bool
    ) -> None:
        tally = self.tally
        prompt = demo_prompt(self.plan.tools)
        asked_at = trio.current_time()
        received = False
        async with runtime.stream(prompt, options, session_id=session) as events:
            if intrude:
                await self._intrude(runtime, options, session)
            async for event in events:
                if not received and isinstance(event, AssistantDelta | AssistantThinking | ToolUse):
                    received = True
                    tally.first_tokens.append(trio.current_time() - asked_at)
                self._count(event)
        tally.runs += 1

    def _count(self, event: AnyEvent) -> None:
        match event:
            case AssistantDelta() | AssistantThinking():
                self.tally.deltas += 1
            case ToolResult(is_error=True):
                self.tally.tool_errors += 1
            case _:
                pass

    async def _intrude(self, runtime: Runtime, options: AgentOptions, session: str) -> None:
        try:
            async with runtime.stream("And another thing.", options, session_id=session):
                self.tally.let_in += 1
        except SessionBusy:
            self.tally.busy += 1


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def _open_sockets() -> int:
    """Return the number of open sockets of this process; 0 if descriptors cannot be listed."""
    return sum(map(_is_socket, _DESCRIPTORS.iterdir() if _DESCRIPTORS.is_dir() else ()))


def _is_socket(descriptor: Path) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(int(descriptor.name)).st_mode)
    except OSError:  # the descriptor of the listing itself, which is closed by now
        return False


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true, for at most the grace period."""
    with trio.move_on_after(_GRACE):
        while not condition():  # noqa: ASYNC110 - nothing reports that the counts changed
            await trio.sleep(_POLL)


def _allow_descriptors(needed: int) -> None:
    """Raise the process's soft limit on open files, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= needed:
        return
    allowed = needed if hard == unlimited else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))

"""Hundreds of runs cancelled at random over real sockets leave no task, socket or call behind."""

import math
import random
from pathlib import Path

import attrs
import trio

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.events import ResultEvent
from agent_actors.providers.openai_chat.client import OpenAIChat
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import EndpointRequest, Reply, ScriptedEndpoint, demo_script, reply
from tests.runs.helpers import Probe, check_history, check_quiet, check_records

# Number of concurrent callers, each with its own session, and number of runs of each caller.
CALLERS = 20
RUNS = 15
# Seconds that a run takes, about, if it is not cancelled.
LENGTH = 0.12


def tasks_alive() -> int:
    """Return the number of tasks of this trio run, except the one that sleeps for the timers.

    That task is a system task, which starts with the first alarm and ends with the `trio.run`.
    """
    root = trio.lowlevel.current_root_task()
    waiting = [root] if root is not None else []
    count = 0
    while waiting:
        task = waiting.pop()
        count += not task.name.endswith("Timers._watch")
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
    return count


def sockets_open() -> int:
    """Return the number of open sockets of this process."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += str(descriptor.readlink()).startswith("socket:")
        except OSError:  # the descriptor of the listing itself, which is closed by now
            continue
    return count


def script(request: EndpointRequest) -> Reply:
    """Reply `Fine.` to `again`; otherwise call three tools and stream a response."""
    if request.last_content == "again":
        return reply("Fine.")
    return demo_script(3, tool_names=["work"], deltas=10, every=0.003)(request)


@attrs.define(eq=False)
class Callers:
    """Callers that use the runtime and give up at any time."""

    runtime: Runtime
    endpoint: ScriptedEndpoint
    dice: random.Random
    probe: Probe = attrs.field(factory=Probe)
    finished: int = 0
    cancelled: int = 0
    options: AgentOptions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        @tool
        async def work(item: int) -> str:
            """Work for a while, and clean up."""
            self.probe.begun.append(f"work {item}")
            try:
                await trio.sleep(self.dice.uniform(0, LENGTH / 3))
                return "done"
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(self.dice.uniform(0, LENGTH / 20))
                self.probe.ended.append(f"work {item}")

        self.options = AgentOptions(model="m", base_url=self.endpoint.base_url, tools=[work])

    async def call(self, session_id: str) -> None:
        """Use `run` or `stream` once, and give up at a random time."""
        patient = self.dice.random() < 0.1
        limit = math.inf if patient else self.dice.uniform(0, LENGTH)
        with trio.move_on_after(limit) as patience:
            if self.dice.random() < 0.5:
                await self.runtime.run("go", self.options, session_id=session_id)
            else:
                async with self.runtime.stream("go", self.options, session_id=session_id) as s:
                    last = [event async for event in s][-1]
                assert isinstance(last, ResultEvent)
        self.finished += not patience.cancelled_caught
        self.cancelled += patience.cancelled_caught
        assert not self.runtime.is_busy(session_id)

    async def call_often(self, session_id: str) -> None:
        for _ in range(RUNS):
            await self.call(session_id)
        history = (await self.runtime.run("again", self.options, session_id=session_id)).messages
        check_history(history)
        assert history.last_content() == "Fine."

    def check_silent(self) -> None:
        self.probe.check()
        check_quiet(self.runtime)
        for endpoint in self.runtime._actors.endpoints._endpoints.values():
            assert isinstance(endpoint.stream.provider, OpenAIChat)
            assert endpoint.stream.provider._exchange.statistics().live == 0


async def test_random_cancels_leave_no_sockets() -> None:
    sockets, store = sockets_open(), MemoryStore()
    async with ScriptedEndpoint(script) as endpoint:
        tasks = tasks_alive()
        async with open_runtime(store=store) as runtime:
            callers = Callers(runtime, endpoint, random.Random(7))
            async with trio.open_nursery() as nursery:
                for number in range(CALLERS):
                    nursery.start_soon(callers.call_often, f"s{number}")
            callers.check_silent()
        # The endpoint notices a little later that its clients have disconnected.
        with trio.fail_after(10):
            await endpoint.wait_closed()
        assert endpoint.open_connections == endpoint.live_responses == 0
        assert tasks_alive() == tasks
        assert callers.cancelled > CALLERS * RUNS / 4
        assert callers.finished > 0
    assert sockets_open() == sockets
    for number in range(CALLERS):
        check_records(await store.load(f"s{number}"))


async def test_cancelled_run_closes_its_connection() -> None:
    async with ScriptedEndpoint(script) as endpoint, open_runtime() as runtime:
        callers = Callers(runtime, endpoint, random.Random(8))
        for number in range(25):
            await callers.call(f"s{number}")
            callers.check_silent()
            with trio.fail_after(10):
                await endpoint.wait_quiet()
        assert callers.cancelled > 5

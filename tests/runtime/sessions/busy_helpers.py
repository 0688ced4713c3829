"""Helpers for sessions that several runs want at once: agents, background runs and checks."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import trio

from agent_actors import AgentOptions, RunResult, Runtime, tool
from agent_actors.actors.session_gate import OnBusy
from agent_actors.domain.events import AnyEvent, ResultEvent, SessionRewind, UserMessage
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelRequest
from agent_actors.testing import ScriptedModel, Turn, call, pause, say


def asked(messages: Messages) -> list[str]:
    """Return the texts of the user messages, in order."""
    return [str(message.content) for message in messages if message.role == "user"]


def on_record(records: list[AnyEvent] | tuple[AnyEvent, ...]) -> list[str]:
    """Describe the records of runs: their prompts, rewinds and stop reasons."""
    described: list[str] = []
    for record in records:
        if isinstance(record, UserMessage):
            described.append(record.text)
        elif isinstance(record, SessionRewind):
            described.append(f"back to {record.to_seq}")
        elif isinstance(record, ResultEvent):
            described.append(record.stop_reason)
    return described


@tool
async def nap(seconds: float) -> str:
    """Sleep."""
    await trio.sleep(seconds)
    return f"slept {seconds:g} s"


def answers(request: ModelRequest) -> Turn:
    """Repeat the last message after a second; the prompts `nap` and `naps` call tools first."""
    last = request.messages.last()
    assert last is not None
    if last.content == "nap":
        return [say("Let me "), call("nap", {"seconds": 4})]
    if last.content == "naps":
        return [call("nap", {"seconds": 1}), call("nap", {"seconds": 8})]
    return [say("You "), pause(1), say(f"said {last.content}.")]


def an_agent(model: ScriptedModel | None = None, **options: Any) -> AgentOptions:
    """Return an agent that responds with `answers`."""
    made = model or ScriptedModel(answers)
    return AgentOptions(model="m", provider=made, tools=[nap], **options)


@attrs.define(eq=False)
class Runs:
    """Background runs by name; their results and errors are in the order in which they ended."""

    runtime: Runtime
    nursery: trio.Nursery
    options: AgentOptions = attrs.field(factory=an_agent)
    results: dict[str, RunResult[object]] = attrs.field(factory=dict[str, RunResult[object]])
    errors: dict[str, Exception] = attrs.field(factory=dict[str, Exception])
    scopes: dict[str, trio.CancelScope] = attrs.field(factory=dict[str, trio.CancelScope])

    async def start(self, prompt: str, on_busy: OnBusy = "queue", wait: float = 0.25) -> None:
        """Start a run on session `s`, and wait a moment."""
        run = partial(self.runtime.run, prompt, self.options, session_id="s", on_busy=on_busy)
        await self.begin(prompt, run, wait)

    async def steer(
        self, prompt: str, options: AgentOptions | None = None, wait: float = 0.25
    ) -> None:
        """Send a message to the run that holds session `s`."""
        await self.begin(prompt, partial(self.runtime.steer, "s", prompt, options), wait)

    async def begin(
        self, name: str, work: Callable[[], Awaitable[RunResult[object]]], wait: float
    ) -> None:
        self.scopes[name] = trio.CancelScope()
        self.nursery.start_soon(self._outcome, name, work)
        await trio.sleep(wait)

    async def _outcome(self, name: str, work: Callable[[], Awaitable[RunResult[object]]]) -> None:
        try:
            with self.scopes[name]:
                self.results[name] = await work()
        except Exception as error:  # noqa: BLE001 - checked by the test
            self.errors[name] = error

    @property
    def ends(self) -> dict[str, str]:
        """The stop reason of each run that has a result, in the order in which the runs ended."""
        return {name: result.stop_reason for name, result in self.results.items()}

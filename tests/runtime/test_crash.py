"""Crashes of an actor's own loop, which only a bug in this project can cause.

The runtime stops everything and reports the crash.
"""

import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import NoReturn, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from agent_actors import AgentOptions, Runtime, open_runtime, tool
from agent_actors.domain.events import ErrorEvent, Event
from agent_actors.domain.model import ModelRequest
from agent_actors.errors import ActorCrashed, RuntimeClosed
from agent_actors.kernel.actor_loop import ActorLoop
from agent_actors.kernel.mailbox import Mailbox
from agent_actors.testing import ScriptedModel, Turn, call, cancel_at_every_step, hang
from agent_actors.testing.cancel import _fixed_order
from tests.runs.helpers import check_quiet
from tests.sweeps import STRIDE

# Number of seeds; each gives another order of the tasks within a tick.
ORDERS = 10


class Bug(Exception):
    """An error that only a bug in this project would raise."""


@attrs.define(eq=False)
class BadLetter:
    """A request that crashes the loop that takes it."""

    context: contextvars.Context = attrs.field(factory=contextvars.copy_context)

    def take(self) -> NoReturn:
        raise Bug("in the loop")


def break_loop(owner: ActorLoop) -> None:
    letters = cast(Mailbox[BadLetter], owner._mailbox)
    letters.put_nowait(BadLetter())


def break_background(owner: ActorLoop) -> None:
    async def bug() -> None:
        raise Bug("in a task of its own")

    owner.start_background(bug)


def endpoint_of(runtime: Runtime) -> ActorLoop:
    """Return the actor of the endpoint; before the first request, the actor that will start it."""
    endpoints = [*runtime._actors.endpoints._endpoints.values()]
    return endpoints[0].stream.owner if endpoints else runtime._actors.endpoints.owner


OWNERS: dict[str, Callable[[Runtime], ActorLoop]] = {
    "runs": lambda runtime: runtime._actors.runs,
    "endpoints": lambda runtime: runtime._actors.endpoints.owner,
    "model_stream": endpoint_of,
    "tool_executor": lambda runtime: runtime._actors.executor.owner,
    "session_gate": lambda runtime: runtime._actors.gate.owner,
    "session_log": lambda runtime: runtime._actors.log.owner,
    "hook_bus": lambda runtime: runtime._actors.bus.owner,
}
of_any_actor = pytest.mark.parametrize("owner_of", OWNERS.values(), ids=OWNERS.keys())
in_any_way = pytest.mark.parametrize("break_it", [break_loop, break_background])


def scripted(*turns: Turn, tools: Iterable[object] = ()) -> AgentOptions:
    return AgentOptions(model="m", provider=ScriptedModel(turns), tools=tools)


@attrs.define(eq=False)
class Scene:
    """Three callers of a runtime: one of `run` and one of `stream` with a running tool, one in the
    queue.
    """

    runtime: Runtime = attrs.field(factory=open_runtime)
    errors: list[BaseException] = attrs.field(factory=list[BaseException])
    seen: list[Event] = attrs.field(factory=list[Event])
    ended: list[str] = attrs.field(factory=list[str])
    callers: trio.Nursery = attrs.field(init=False)
    options: AgentOptions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        @tool
        async def linger() -> str:
            """Take some time to end."""
            try:
                await trio.sleep(100)
                return "done"
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(5)
                self.ended.append("linger")

        def script(request: ModelRequest) -> Turn:
            last = request.messages.last()
            assert last is not None
            return "Done." if last.role == "tool" else call("linger")

        self.options = AgentOptions(model="m", provider=ScriptedModel(script), tools=[linger])

    async def run(self) -> None:
        await self.collect(lambda: self.runtime.run("go", self.options, session_id="a"))

    async def wait_in_line(self) -> None:
        await self.collect(
            lambda: self.runtime.run("go", self.options, session_id="a", on_busy="queue")
        )

    async def read(self) -> None:
        async def read_all() -> None:
            async with self.runtime.stream("go", self.options, session_id="b") as events:
                async for event in events:
                    self.seen.append(event)

        await self.collect(read_all)

    async def collect(self, code: Callable[[], Awaitable[object]]) -> None:
        try:
            await code()
        except ActorCrashed as error:
            self.errors.append(error)

    async def start(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.run)
        await trio.sleep(1)
        nursery.start_soon(self.read)
        nursery.start_soon(self.wait_in_line)
        await trio.sleep(1)

    def check(self) -> None:
        assert len(self.errors) == 3
        assert self.ended == ["linger", "linger"]
        check_quiet(self.runtime)
        assert self.runtime.statistics().runs_started == 3


@of_any_actor
@in_any_way
def test_broken_actor_notifies_every_caller(
    owner_of: Callable[[Runtime], ActorLoop], break_it: Callable[[ActorLoop], None]
) -> None:
    async def main() -> None:
        scene, reached = Scene(), list[str]()

        async def body() -> None:
            async with scene.runtime:
                await scene.start(nursery)
                break_it(owner_of(scene.runtime))
                await trio.sleep(500)
                reached.append("after the crash")

        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                with pytest.raises(ActorCrashed, match="please report it") as caught:
                    await body()
        assert not reached
        scene.check()
        assert any(isinstance(leaf, Bug) for leaf in leaves(caught.value))
        with pytest.raises(RuntimeClosed):
            await scene.runtime.run("again", scripted("Hello."))

    for seed in range(ORDERS):
        with _fixed_order(seed):
            trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    "name", ["runs", "model_stream", "tool_executor", "session_gate", "session_log"]
)
@pytest.mark.no_cover
def test_crash_at_any_step_hangs_nothing(name: str) -> None:
    @asynccontextmanager
    async def scenes() -> AsyncGenerator[Scene]:
        scene = Scene()
        with trio.fail_after(5_000):
            # The callers are outside the body, because the crash cancels the body.
            async with trio.open_nursery() as scene.callers:
                with suppress(ActorCrashed):
                    async with scene.runtime:
                        yield scene
        assert len(scene.ended) == scene.runtime.statistics().tools.calls
        check_quiet(scene.runtime)

    async def all_call(scene: Scene) -> None:
        async with trio.open_nursery() as waiters:
            for caller in (scene.run, scene.read, scene.wait_in_line):
                ended = trio.Event()
                scene.callers.start_soon(then, caller, ended)
                waiters.start_soon(ended.wait)

    async def then(caller: Callable[[], Awaitable[None]], ended: trio.Event) -> None:
        await caller()
        ended.set()

    def crash(scene: Scene) -> None:
        break_loop(OWNERS[name](scene.runtime))

    def is_service(task: trio.lowlevel.Task) -> bool:
        return task.name.endswith("ActorLoop._background")

    steps = cancel_at_every_step(
        all_call, around=scenes, cancel=crash, may_stay=is_service, stride=STRIDE
    )
    assert steps > 80


def leaves(error: BaseException | None) -> list[BaseException]:
    """Return the original errors behind an error, through causes and groups."""
    if error is None:
        return []
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [leaf for member in group.exceptions for leaf in leaves(member)]
    return leaves(error.__cause__) or [error]


async def test_last_event_reports_the_crash(
    autojump_clock: MockClock,
) -> None:
    scene = Scene()

    async def body() -> None:
        async with scene.runtime:
            await scene.start(nursery)
            break_loop(scene.runtime._actors.executor.owner)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with pytest.raises(ActorCrashed, match="tool_executor"):
            await body()
    last = [event for event in scene.seen if isinstance(event, ErrorEvent)]
    assert last == scene.seen[-1:]


async def test_body_run_raises_crash_bare(autojump_clock: MockClock) -> None:
    scene = Scene()

    async def breaks() -> None:
        await trio.sleep(2)
        break_loop(scene.runtime._actors.executor.owner)

    async def body() -> None:
        async with scene.runtime:
            nursery.start_soon(breaks)
            await scene.runtime.run("go", scene.options)

    async with trio.open_nursery() as nursery:
        with pytest.raises(ActorCrashed, match="tool_executor"):
            await body()


async def test_body_error_carries_crash_as_note(
    autojump_clock: MockClock,
) -> None:
    async def body() -> None:
        async with open_runtime() as runtime:
            break_loop(runtime._actors.gate.owner)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        await body()
    (note,) = caught.value.__notes__
    assert note.startswith("and the runtime failed: actor session_gate crashed")


async def test_errors_during_crash_are_kept(
    autojump_clock: MockClock,
) -> None:
    async def fails() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")

    async def body() -> None:
        async with open_runtime() as runtime, trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep(1)
            break_loop(runtime._actors.gate.owner)

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: ASYNC401 - how deep is not the point
        await body()
    (error,) = caught.value.exceptions
    assert isinstance(error, ValueError)
    assert "actor session_gate crashed" in caught.value.__notes__[0]
    await trio.lowlevel.checkpoint()


async def test_crash_during_drain_is_raised(
    autojump_clock: MockClock,
) -> None:
    scene = Scene()

    async def breaks() -> None:
        await trio.sleep(3)
        break_loop(scene.runtime._actors.executor.owner)

    async def body() -> None:
        async with scene.runtime:
            await scene.start(nursery)
            nursery.start_soon(breaks)

    async with trio.open_nursery() as nursery:
        with pytest.raises(ActorCrashed, match="tool_executor"):
            await body()
    scene.check()


async def test_user_exceptions_crash_no_actor(autojump_clock: MockClock) -> None:
    async def bad(_: Event) -> None:
        raise Bug("of an observer")

    async with open_runtime() as runtime:
        with runtime.subscribe(bad) as subscription:
            options = scripted("Hello.")
            assert (await runtime.run("hi", options)).text == "Hello."
            await trio.sleep(1)
        assert subscription.statistics().failed > 0
        with trio.move_on_after(1):
            await runtime.run("hi", scripted(hang()))
    assert runtime._actors.crash is None

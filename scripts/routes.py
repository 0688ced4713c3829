"""Count the calls and files that a prompt, a tool call and a question pass on their way.

A route is the chain of the package's calls that leads to a destination. It consists of the call
stack at the destination and, if a worker task is involved, the call stack that made the worker's
request. The script prints a table; with `-v`, it also prints each call.
"""

import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import attrs
import trio

from agent_actors import AgentOptions, PermissionPolicy, Runtime, open_runtime, tool
from agent_actors.actors.question_board import QuestionWatcher
from agent_actors.domain.model import ModelRequest
from agent_actors.domain.run import Question
from agent_actors.testing import ScriptedModel, Turn, call

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE: Final = Path(__file__).parents[1] / "agent_actors"
# The function in which the driver gets the model's response.
LOOP: Final = "Driver._run_turns"


@attrs.frozen
class Call:
    """One call on a route."""

    file: str
    function: str


@attrs.define(eq=False)
class Tracer:
    """Remembers which calls led to each request to an actor."""

    _origins: dict[int, list[Call]] = attrs.field(factory=dict[int, list[Call]], init=False)
    _kept: list[object] = attrs.field(factory=list[object], init=False)

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        """Record the origin of each new request; for `sys.setprofile`."""
        del argument
        if event == "call" and frame.f_code.co_qualname == "Request.__init__":
            request: object = frame.f_locals["self"]
            self._kept.append(request)  # keep it alive, so that no other request gets its id
            self._origins[id(request)] = self.chain(frame.f_back)

    def chain(self, frame: FrameType | None) -> list[Call]:
        """Return the calls that led to a frame, the first call first."""
        calls: list[Call] = []
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if PACKAGE in path.parents and not frame.f_code.co_name.startswith("<"):
                name = frame.f_code.co_qualname
                calls.append(Call(path.relative_to(PACKAGE).as_posix(), name))
                if name == "Request.perform":
                    origin = self._origins.get(id(frame.f_locals["self"]), [])
                    return [*origin, *reversed(calls)]
            frame = frame.f_back
        return calls[::-1]

    def here(self, *, after: str = "") -> list[Call]:
        """Return the calls that led here; with `after`, only the calls after this function."""
        calls = self.chain(inspect.currentframe())
        names = [item.function for item in calls]
        return calls[names.index(after) + 1 :] if after in names else calls


async def prompt_route(runtime: Runtime, tracer: Tracer) -> list[Call]:
    """Return the route from `Runtime.run` to the request that the provider gets."""
    route: list[Call] = []

    def respond(request: ModelRequest) -> Turn:
        del request
        route[:] = [one for one in tracer.here() if not one.file.startswith("testing/")]
        return "Fine."

    await runtime.run("Go.", AgentOptions(model="m", provider=ScriptedModel(respond)))
    return route


async def tool_route(runtime: Runtime, tracer: Tracer) -> list[Call]:
    """Return the route from the model's response to the handler of a tool."""
    route: list[Call] = []

    @tool
    async def look() -> str:
        """Look."""
        route[:] = tracer.here(after=LOOP)
        return "seen"

    model = ScriptedModel([call("look", {}), "Fine."])
    await runtime.run("Go.", AgentOptions(model="m", provider=model, tools=[look]))
    return route


async def question_route(runtime: Runtime, tracer: Tracer) -> list[Call]:
    """Return the routes from the model's response to the person, and from the answer to the run."""
    out: list[Call] = []
    back: list[Call] = []

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    def opened(question: Question) -> None:
        out[:] = tracer.here(after=LOOP)
        token.run_sync_soon(runtime.answer, question.id, "yes")

    def closed(question_id: str) -> None:
        del question_id
        back.extend(() if back else tracer.here())

    token = trio.lowlevel.current_trio_token()
    ignore: Callable[[], None] = lambda: None  # noqa: E731 - a callback without arguments
    watcher = QuestionWatcher(opened, closed, lambda _: None, ignore)
    runtime.watch_questions(watcher)
    model = ScriptedModel([call("look", {}), "Fine."])
    policy = PermissionPolicy(ask=["look"])
    options = AgentOptions(model="m", provider=model, tools=[look], permissions=policy)
    await runtime.run("Go.", options)
    return [*out, *back]


async def measure() -> dict[str, list[Call]]:
    """Measure the routes, one after the other."""
    tracer = Tracer()
    sys.setprofile(tracer.profile)
    try:
        async with open_runtime() as runtime:
            return {
                "prompt to provider": await prompt_route(runtime, tracer),
                "response to tool": await tool_route(runtime, tracer),
                "response to person and back": await question_route(runtime, tracer),
            }
    finally:
        sys.setprofile(None)


def main() -> int:
    """Print the table."""
    routes = trio.run(measure)
    print("| route | calls | files |\n|---|---|---|")
    for name, route in routes.items():
        print(f"| {name} | {len(route)} | {len({one.file for one in route})} |")
    if "-v" in sys.argv:
        for name, route in routes.items():
            print(f"\n{name}")
            print("\n".join(f"  {one.file} {one.function}" for one in route))
    return 0


if __name__ == "__main__":
    sys.exit(main())

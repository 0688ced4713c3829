"""What hooks cost: nothing where there are none, and little where one has nothing to say.

An agent without hooks still has a driver that asks whether it has any. So the floor is that very
driver with these questions answered when it is compiled: the difference is what they cost. It takes
part twice, and what lies between its two rows is noise.

A run is one session of two model calls and one tool call, by a model in the same process.
"""

import ast
import gc
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import trio

from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.hooks import Hook, HookMatcher, Hooks
from agent_actors.hooks.phases import PHASES, Phase
from agent_actors.run import driver
from agent_actors.runtime import runtime
from agent_actors.testing import ScriptedModel, call
from benchmarks.endpoint import pin
from benchmarks.record import QUICK, ROUNDS, report, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS: Final = 100 if QUICK else 250
# Short rounds and many: a neighbour who comes and goes harms few of them.
MANY: Final = ROUNDS * 5

_HOOKED: Final = ("hooked", "_hooked")


class _Unasked(ast.NodeTransformer):
    """Answers `hooked is None` by True, and `hooked is not None` by False."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = node.left
        name = left.id if isinstance(left, ast.Name) else getattr(left, "attr", "")
        match node.ops, node.comparators:
            case [ast.Is() | ast.IsNot() as asked], [ast.Constant(value=None)] if name in _HOOKED:
                return ast.copy_location(ast.Constant(isinstance(asked, ast.Is)), node)
            case _:
                return node


def driver_that_never_asks() -> type[driver.Driver]:
    """The driver, made anew from its source."""
    source = Path(driver.__file__).read_text(encoding="utf-8")
    tree = ast.fix_missing_locations(_Unasked().visit(ast.parse(source)))
    module = ModuleType("benchmarks.driver_that_never_asks")
    sys.modules[module.__name__] = module
    exec(compile(tree, driver.__file__, "exec"), module.__dict__)
    made: type[driver.Driver] = module.Driver
    return made


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def look(event: object) -> None:
    """A no-op hook."""


class Everywhere(Hook):
    """Takes part in each phase that a hook may only look at, and does nothing."""


for _phase, _info in PHASES.items():
    if not _info.wraps and _phase is not Phase.MODIFY_REQUEST:

        async def _look(self: Hook, event: object, ctx: object) -> None: ...

        setattr(Everywhere, _phase.value, _look)


def take(hooks: Hooks = (), *, driven_by: type[driver.Driver] = driver.Driver) -> float:
    """CPU seconds of a run."""
    turns = [turn for _ in range(RUNS + 1) for turn in (call("echo", {"text": "a"}), "Done.")]
    options = AgentOptions(model="m", provider=ScriptedModel(turns), tools=[echo], hooks=hooks)

    async def runs() -> float:
        async with open_runtime() as opened:
            await opened.run("Go.", options)
            began = time.process_time()
            for _ in range(RUNS):
                await opened.run("Go.", options)
            return (time.process_time() - began) / RUNS

    gc.collect()
    setattr(runtime, "Driver", driven_by)  # noqa: B010 - it is not the module's to give away
    try:
        return trio.run(runs)
    finally:
        setattr(runtime, "Driver", driver.Driver)  # noqa: B010


def main() -> None:
    """Measure."""
    pin(0)
    unasked = driver_that_never_asks()
    elsewhere: Hooks = {"before_tool": [HookMatcher("another_tool", [look])]}
    contenders: dict[str, Callable[[], float]] = {
        "no hooks, and nobody asks": partial(take, driven_by=unasked),
        "the same once more: noise": partial(take, driven_by=unasked),
        "no hooks": take,
        "a no-op hook for another tool": partial(take, elsewhere),
        "a no-op hook before each tool": partial(take, {"before_tool": look}),
        "a no-op hook before and after each call": partial(
            take,
            dict.fromkeys(("before_model", "after_model", "before_tool", "after_tool"), look),
        ),
        "a no-op hook in each phase that looks": partial(take, Everywhere()),
    }
    take()  # what is made once is nobody's cost
    rows = take_turns(contenders, rounds=MANY, scale=1e6)
    report("hooks", "CPU per run of two model calls and one tool call", "µs", rows, runs=RUNS)


if __name__ == "__main__":
    main()

"""The cost of hooks: no cost without hooks, and little cost with hooks that do nothing.

Without hooks, the driver of a run still checks whether there are any. The baseline is the same
driver, compiled with the results of these checks as constants. The difference is the cost of the
checks. The baseline is measured twice; the difference between its two rows is noise.

A run has one session, two model calls and one tool call, with a model in the same process.
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
from agent_actors.runs import driver
from agent_actors.runtime import runtime
from agent_actors.testing import ScriptedModel, call
from benchmarks.endpoint import pin
from benchmarks.record import QUICK, ROUNDS, report, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS: Final = 100 if QUICK else 250
# Many short rounds: a temporary load on the machine affects only a few of them.
MANY: Final = ROUNDS * 5

_HOOKED: Final = ("hooked", "_hooked")


class _Unasked(ast.NodeTransformer):
    """Replaces `hooked is None` by True, and `hooked is not None` by False."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = node.left
        name = left.id if isinstance(left, ast.Name) else getattr(left, "attr", "")
        match node.ops, node.comparators:
            case [ast.Is() | ast.IsNot() as asked], [ast.Constant(value=None)] if name in _HOOKED:
                return ast.copy_location(ast.Constant(isinstance(asked, ast.Is)), node)
            case _:
                return node


def driver_that_never_asks() -> type[driver.Driver]:
    """Return the driver, recompiled from its source without the checks."""
    source = Path(driver.__file__).read_text(encoding="utf-8")
    tree = ast.fix_missing_locations(_Unasked().visit(ast.parse(source)))
    module = ModuleType("benchmarks.driver_that_never_asks")
    sys.modules[module.__name__] = module
    exec(compile(tree, driver.__file__, "exec"), module.__dict__)
    made: type[driver.Driver] = module.Driver
    return made


@tool
async def echo(text: str) -> str:
    """Repeat a text."""
    return text


async def look(event: object) -> None:
    """Do nothing."""


class Everywhere(Hook):
    """A hook that does nothing, in every phase that only observes."""


for _phase, _info in PHASES.items():
    if not _info.wraps and _phase is not Phase.MODIFY_REQUEST:

        async def _look(self: Hook, event: object, ctx: object) -> None: ...

        setattr(Everywhere, _phase.value, _look)


def take(hooks: Hooks = (), *, driven_by: type[driver.Driver] = driver.Driver) -> float:
    """Return the CPU seconds of a run."""
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
    setattr(runtime, "Driver", driven_by)  # noqa: B010 - the module does not export this name
    try:
        return trio.run(runs)
    finally:
        setattr(runtime, "Driver", driver.Driver)  # noqa: B010


def main() -> None:
    """Run the benchmark."""
    pin(0)
    unasked = driver_that_never_asks()
    elsewhere: Hooks = {"before_tool": [HookMatcher("another_tool", [look])]}
    contenders: dict[str, Callable[[], float]] = {
        "no hooks, without the checks": partial(take, driven_by=unasked),
        "the same again (noise)": partial(take, driven_by=unasked),
        "no hooks": take,
        "a no-op hook for another tool": partial(take, elsewhere),
        "a no-op hook before each tool": partial(take, {"before_tool": look}),
        "a no-op hook before and after each call": partial(
            take,
            dict.fromkeys(("before_model", "after_model", "before_tool", "after_tool"), look),
        ),
        "a no-op hook in each observing phase": partial(take, Everywhere()),
    }
    take()  # the first run pays the one-time costs
    rows = take_turns(contenders, rounds=MANY, scale=1e6)
    report("hooks", "CPU per run of two model calls and one tool call", "µs", rows, runs=RUNS)


if __name__ == "__main__":
    main()

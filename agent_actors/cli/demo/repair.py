"""`agent-actors demo --code`: an agent repairs a small project in a sandbox.

The project is in a temporary directory. The agent reads it, searches it, edits it and runs its
tests with the built-in tools in a bubblewrap workspace. The demo itself runs the tests before and
after the agent, so its result does not depend on what the model says.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final

import attrs
import trio

from agent_actors import AgentOptions, RunResult, open_runtime
from agent_actors.cli.demo.runner import DemoPlan
from agent_actors.cli.edits.previews import EditPreviews
from agent_actors.cli.event_printer import EventPrinter
from agent_actors.cli.outcome import FAILED, complete, fail
from agent_actors.domain.workspace.processes import ProcessSpec
from agent_actors.testing import ReplyStep, ScriptedEndpoint, call, say
from agent_actors.toolbox.workspace import BubblewrapWorkspace

_TESTS: Final = "python3 -B -m unittest -q"
_TOOLS: Final = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
_SYSTEM: Final = "You are a careful programmer. Use the tools, and run the tests after each change."
_PROMPT: Final = f"The tests of this project fail. Repair it. `{_TESTS}` runs the tests."
# Seconds between two words of the scripted response, so that it can be followed.
_EVERY: Final = 0.01
_SECONDS: Final = 60.0

_CART: Final = '''"""A shopping cart, with all amounts in cents."""


def total(prices: list[int], discount: int = 0) -> int:
    """Return the sum of the prices, minus a discount in percent."""
    return sum(prices) * discount // 100
'''
_CART_TESTS: Final = """import unittest

from cart import total


class TotalTest(unittest.TestCase):
    def test_without_discount(self) -> None:
        self.assertEqual(total([250, 150]), 400)

    def test_with_discount(self) -> None:
        self.assertEqual(total([250, 150], discount=25), 300)


if __name__ == "__main__":
    unittest.main()
"""
_FILES: Final = {"cart.py": _CART, "test_cart.py": _CART_TESTS}


@attrs.frozen
class RepairReport:
    """The result of the demo.

    Attributes:
        failed_before: True if the tests failed before the agent began.
        pass_now: True if the tests passed after the agent had ended.
        model_calls: The number of model calls.
        tool_calls: The names of the tools that the model called, in order.
        sandbox: The kind of the workspace.
        seconds: The duration of the run.
    """

    failed_before: bool
    pass_now: bool
    model_calls: int
    tool_calls: tuple[str, ...]
    sandbox: str
    seconds: float


async def run_repair(plan: DemoPlan, *, as_json: bool) -> int:
    """Run the demo, and report its result.

    Args:
        plan: The endpoint.
        as_json: Print one JSON object and nothing else.

    Returns:
        The exit status: 0 if the tests pass at the end.

    Cancellation: the run, its processes and the project are removed.
    """
    return await complete(lambda: _repair(plan, as_json=as_json))


async def _repair(plan: DemoPlan, *, as_json: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="agent-actors-demo-") as directory:
        workspace = BubblewrapWorkspace(_make_project(directory))
        try:
            report = await _run(plan, workspace, as_json=as_json)
        finally:
            with trio.CancelScope(shield=True):
                await workspace.aclose()
    if report is None:
        return fail(
            "the demo needs python3 in the sandbox, where only programs in /usr are available; "
            "install Python 3 with the package manager of the system"
        )
    if as_json:
        sys.stdout.write(json.dumps(attrs.asdict(report)) + "\n")
    return 0 if report.failed_before and report.pass_now else FAILED


def _make_project(directory: str) -> Path:
    root = Path(directory).resolve()
    for name, text in _FILES.items():
        (root / name).write_text(text)
    return root


async def _run(
    plan: DemoPlan, workspace: BubblewrapWorkspace, *, as_json: bool
) -> RepairReport | None:
    """Run the agent; return None if the sandbox has no Python."""
    if await _fails(workspace, "command -v python3"):
        return None
    failed_before = await _fails(workspace, _TESTS)
    printer = None if as_json else EventPrinter(dim=True)
    result = await _run_agent(plan, workspace, printer)
    report = RepairReport(
        failed_before,
        pass_now=not await _fails(workspace, _TESTS),
        model_calls=result.iterations,
        tool_calls=tuple(one.name for one in result.tool_calls),
        sandbox=workspace.describe().kind,
        seconds=round(result.duration, 2),
    )
    if printer is not None:
        outcome = "pass" if report.pass_now else "still fail"
        await printer.note(
            f"demo: the tests failed before, and {outcome} now; {len(report.tool_calls)} tool "
            f"calls in a {report.sandbox} sandbox, {report.seconds:g} s; the project was removed"
        )
    return report


async def _run_agent(
    plan: DemoPlan, workspace: BubblewrapWorkspace, printer: EventPrinter | None
) -> RunResult:
    endpoint = ScriptedEndpoint(_script()) if plan.embedded else None
    opened: AbstractAsyncContextManager[object] = nullcontext() if endpoint is None else endpoint
    previews = EditPreviews(None if printer is None else Path(workspace.root))
    if printer is not None:
        printer.previews = previews
        printer.begin_run(thinking=False)
        await printer.note(f"demo: {_PROMPT}")
    async with opened, previews, open_runtime() as runtime:
        options = AgentOptions(
            model=plan.model or "scripted",
            base_url=plan.base_url if endpoint is None else endpoint.base_url,
            provider=plan.provider,
            api_key=plan.api_key,
            system_prompt=_SYSTEM,
            temperature=None,
            builtin_tools=_TOOLS,
            workspace=workspace,
            hooks=previews.hooks,
        )
        async with runtime.stream(_PROMPT, options) as events:
            async for event in events:
                if printer is not None:
                    await printer.show(event)
        assert events.result is not None
        return events.result


async def _fails(workspace: BubblewrapWorkspace, command: str) -> bool:
    result = await workspace.exec(ProcessSpec(argv=command, timeout=_SECONDS))
    return result.end.exit_code != 0


def _script() -> Sequence[Sequence[ReplyStep]]:
    """Return the responses of the embedded endpoint."""
    old, new = "sum(prices) * discount // 100", "sum(prices) * (100 - discount) // 100"
    return [
        [_say("I run the tests first."), call("Bash", {"command": _TESTS})],
        [
            _say("Both tests fail in total(). I look at the function and its uses."),
            call("Grep", {"query": r"total\(", "file_glob": "*.py"}),
            call("Read", {"file_path": "cart.py"}),
        ],
        [
            _say("The function returns the discount instead of subtracting it."),
            call("Edit", {"file_path": "cart.py", "old": old, "new": new}),
        ],
        [_say("Now I run the tests again."), call("Bash", {"command": _TESTS})],
        [_say("The tests pass: total() now subtracts the discount from the sum.")],
    ]


def _say(text: str) -> ReplyStep:
    return say(text, chunks=len(text.split()), every=_EVERY)

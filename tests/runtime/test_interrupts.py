"""Ctrl-C at any line: programs end cleanly, and users' code can be interrupted."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock

import agent_actors
from agent_actors import (
    AgentOptions,
    Hook,
    HookContext,
    PermissionDecision,
    PermissionPolicy,
    PreToolUseEvent,
    Tool,
    ToolOutput,
    ToolUseBlock,
    open_runtime,
    tool,
)
from agent_actors.abc import SessionStore
from agent_actors.domain.events import Event
from agent_actors.domain.json import JsonObject
from agent_actors.hooks.events import SessionEndEvent, SessionStartEvent
from agent_actors.hooks.hook import ToolCall
from agent_actors.kernel.interrupts import PROTECTED
from agent_actors.permissions import PermissionRequest
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call
from tests.runs.helpers import check_history, check_quiet, check_records
from tests.sweeps import DEEP

# A prime, so that the sample hits different lines in each pass of a loop. A deep run hits all
# lines.
STEP: Final = 1 if DEEP else 797
# A complete sweep is split into parts, which run in parallel.
PARTS: Final = 16 if DEEP else 1
ROOT: Final = Path(agent_actors.__file__).parent.parent

UNPROTECTED: Final = """
import importlib, json, pkgutil, sys
import agent_actors
from agent_actors.kernel import interrupts
from trio._core import _ki
found, seen = [], set()
for name in agent_actors.__all__:
    getattr(agent_actors, name)
modules = pkgutil.walk_packages(agent_actors.__path__, "agent_actors.")
for module in sorted(modules, key=lambda module: module.name):
    package, name = module.name.split(".")[1], module.name.rpartition(".")[2]
    # Code that the stores on disk share: the store that imports it protects it.
    internal = name.startswith("_") or module.name.startswith("agent_actors.stores.disk")
    if package in interrupts.PROTECTED and not internal:
        importlib.import_module(module.name)
        for name, loaded in list(sys.modules.items()):
            inside = name.startswith("agent_actors.") and name.split(".")[1]
            if inside in interrupts.PROTECTED and name not in seen:
                seen.add(name)
                for code in interrupts.codes_of(loaded):
                    if _ki._IdRef(code) not in _ki._CODE_KI_PROTECTION_STATUS_WMAP._data:
                        found.append(f"{name}: {code.co_qualname} after {module.name}")
print(json.dumps(found))
"""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("kind", "doing"),
    [("SqliteStore", "stream"), ("JsonlStore", "stream"), ("SqliteStore", "client")],
)
def test_interrupt_at_any_line_ends_in_order(kind: str, doing: str, part: int) -> None:
    command = [sys.executable, "-m", "tests.runtime.interrupt_helpers", kind, doing]
    swept = subprocess.run(
        [*command, str(part + 1), str(STEP * PARTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert swept.returncode == 0, swept.stderr
    strikes, *failures = swept.stdout.splitlines()
    assert not failures, "\n".join(failures)
    assert int(strikes) >= 10


def test_every_stateful_function_is_protected() -> None:
    """A public module that no public name of the package loads protects itself on import."""
    here = Path(agent_actors.__file__).parent
    assert [name for name in PROTECTED if not any(here.glob(f"{name}*"))] == []
    command = [sys.executable, "-c", UNPROTECTED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@attrs.define(eq=False)
class Struck(Hook):
    """An agent whose code receives SIGINT at one place.

    Attributes:
        place: The place.
        strikes: How often SIGINT was raised there.
    """

    place: str
    strikes: int = 0
    begun: list[str] = attrs.field(factory=list[str])
    ended: list[str] = attrs.field(factory=list[str])

    def at(self, place: str) -> None:
        """Receive SIGINT, once, if this is the chosen place."""
        if place == self.place and not self.strikes:
            self.strikes += 1
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("the interrupt was not raised in the user's code")

    async def session_start(self, event: SessionStartEvent, ctx: HookContext) -> None:
        self.at("session_start")
        self.begun.append(event.session_id)

    async def session_end(self, event: SessionEndEvent, ctx: HookContext) -> None:
        self.ended.append(event.session_id)
        self.at("session_end")

    async def before_tool(self, event: PreToolUseEvent, ctx: HookContext) -> None:
        self.at("before_tool")

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        self.at("wrap_tool_call")
        return await call_next(call)

    def validate(self, arguments: JsonObject) -> str | None:
        """The tool's validator."""
        self.at("validator")
        return None

    async def observe(self, event: Event) -> None:
        """An observer."""
        self.at("observer")

    async def allow(self, request: PermissionRequest) -> PermissionDecision:
        """The permission callback."""
        self.at("can_use_tool")
        return PermissionDecision("allow")

    def tool(self) -> Tool:
        """The tool."""

        @tool(validator=self.validate)
        async def work() -> str:
            """Work, with a background task."""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.lowlevel.checkpoint)
                self.at("nursery")
            self.at("tool")
            return "done"

        return work


PLACES: Final = (
    "session_start",
    "session_end",
    "before_tool",
    "wrap_tool_call",
    "validator",
    "observer",
    "can_use_tool",
    "nursery",
    "tool",
)


@pytest.mark.parametrize("place", PLACES)
def test_users_code_is_interrupted_in_order(place: str) -> None:
    """The interrupt is raised in the user's code, and leaves the runtime without a group."""
    store, struck = MemoryStore(), Struck(place)
    runtime = open_runtime(store=store)

    async def main() -> None:
        options = AgentOptions(
            model="m",
            provider=ScriptedModel([[call("work")], "Done."]),
            tools=[struck.tool()],
            hooks=[struck],
            permissions=PermissionPolicy(mode="prompt"),
            can_use_tool=struck.allow,
        )
        with trio.fail_after(100):
            async with runtime:
                runtime.subscribe(struck.observe)
                await runtime.run("go", options, session_id="s")

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    assert struck.strikes == 1
    assert struck.ended == struck.begun
    check_quiet(runtime)
    trio.run(check_session, store)


async def check_session(store: SessionStore) -> None:
    """Check that the session's records are valid and that each run has its final record."""
    records = [record for record in await store.load("s") if isinstance(record, Event)]
    check_records(records)
    check_history(fold(records).history())

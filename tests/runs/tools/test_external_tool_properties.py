"""Suspended runs with any mix of calls and any order of answers, through crashes and restarts."""

import json
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st

from agent_actors import AgentOptions, RunResult, Tool, open_runtime, tool
from agent_actors.domain.events import AnyEvent, ToolResult, ToolUse
from agent_actors.permissions import PermissionPolicy
from agent_actors.sessions import fold
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel, StepOutcome, call, cancel_at_every_step, interleave
from tests.runs.helpers import check_history, check_quiet
from tests.sweeps import STRIDE


class Kept(MemoryStore):
    """A store that keeps its data after the runtime has closed, as a disk would."""

    def evicted(self, session_id: str) -> None: ...

    async def aclose(self) -> None: ...


@tool
async def plain(number: int) -> str:
    """Needs no permission."""
    return f"did {number}"


@tool
async def careful(number: int) -> str:
    """Needs permission."""
    return f"was let do {number}"


@tool
async def never(number: int) -> str:
    """Is always denied."""
    raise AssertionError(number)


outside = Tool("outside", "Somebody else carries it out.", {"number": int})
asked_outside = Tool("asked_outside", "Likewise, and is asked about.", {"number": int})
TOOLS: Final = [plain, careful, never, outside, asked_outside]
NAMES: Final = [one.name for one in TOOLS]
POLICY: Final = PermissionPolicy(
    mode="bypass", ask=["careful", "asked_outside"], deny=["never(number=*)"]
)


def agent(names: list[str]) -> AgentOptions:
    calls = [call(name, {"number": number}) for number, name in enumerate(names)]
    return AgentOptions(
        model="m",
        provider=ScriptedModel([[interleave(*calls)], *["Done."] * 20]),
        tools=TOOLS,
        permissions=POLICY,
        on_ask="suspend",
        on_suspended="deny",
    )


# For each round: which open questions and calls get an answer, whether the last one comes first,
# and whether the questions are answered with yes.
ROUNDS = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=6, max_size=6), st.booleans(), st.booleans()),
    max_size=4,
)


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), ROUNDS, st.booleans())
def test_any_order_keeps_history_valid(
    names: list[str], rounds: list[tuple[list[bool], bool, bool]], finish: bool
) -> None:
    trio.run(_any_order, names, rounds, finish)


async def _any_order(
    names: list[str], rounds: list[tuple[list[bool], bool, bool]], finish: bool
) -> None:
    store, options = Kept(), agent(names)
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("Go.", options, session_id="s")
    for chosen, backwards, yes in [*rounds, *[([True] * 6, False, True)] * 2 * finish]:
        if result.stop_reason != "awaiting_approval":
            break
        seen_to = _open_in(result)[:: -1 if backwards else 1]
        seen_to = [one for one, wanted in zip(seen_to, chosen, strict=False) if wanted]
        questions = {question.id for question in result.questions}
        async with open_runtime(store=store) as runtime:  # as if in another process
            result = await runtime.resume(
                "s",
                {one: "yes" if yes else "no" for one in seen_to if one in questions},
                options,
                results={one: f"{one} is done" for one in seen_to if one not in questions},
            )
            check_history(result.messages)
            check_quiet(runtime)
        _check_log(await store.load("s"), ended=not _open_in(result))
    assert not finish or result.text == "Done."
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("Enough.", options, session_id="s")
        check_history(result.messages)
    _check_log(await store.load("s"), ended=True)


def _open_in(result: RunResult) -> list[str]:
    questions = [question.id for question in result.questions]
    return [*questions, *(call.id for call in result.external_calls)]


def _check_log(records: Sequence[AnyEvent], *, ended: bool) -> None:
    used = [one.tool_use_id for one in records if isinstance(one, ToolUse)]
    answered = [one.tool_use_id for one in records if isinstance(one, ToolResult)]
    assert len(set(answered)) == len(answered)
    assert set(answered) <= set(used)
    assert (sorted(answered) == sorted(used)) is ended
    state = fold(records)
    assert state.is_suspended is not ended
    assert state.external.keys() <= {one.id for one in state.open_calls}
    check_history(state.history())


@attrs.define
class Scene:
    """A session that waits for the results of two calls."""

    store: Kept
    options: AgentOptions
    results: dict[str, str]


@asynccontextmanager
async def waiting() -> AsyncGenerator[Scene]:
    store, options = Kept(), agent(["outside", "plain", "outside", "careful"])
    async with open_runtime(store=store) as runtime:
        first = await runtime.run("Go.", options, session_id="s")
    yield Scene(store, options, {one.id: f"{one.id} is done" for one in first.external_calls})


def test_cancelled_run_takes_all_or_none() -> None:
    taken: set[bool] = set()

    async def resume(scene: Scene) -> None:
        async with open_runtime(store=scene.store) as runtime:
            await runtime.resume("s", {}, scene.options, results=scene.results)

    async def check(_: int, outcome: StepOutcome[Scene]) -> None:
        scene = outcome.subject
        records = await scene.store.load("s")
        answered = {one.tool_use_id for one in records if isinstance(one, ToolResult)}
        taken.add(scene.results.keys() <= answered)
        state = fold(records)
        check_history(state.history())
        if not scene.results.keys() <= answered:
            assert answered.isdisjoint(scene.results)
            assert state.external.keys() == scene.results.keys()

    cancel_at_every_step(resume, around=waiting, check=check, stride=STRIDE)
    assert taken == {True, False}


_CHILD: Final = """
import json, os, signal, sys, trio
from agent_actors import open_runtime
from agent_actors.stores.sqlite import SqliteStore
from tests.runs.tools.test_external_tool_properties import agent

async def main():
    async with open_runtime(store=SqliteStore(sys.argv[1])) as runtime:
        result = await runtime.run("Go.", agent(["outside", "careful"]), session_id="s")
        print(json.dumps([[q.id for q in result.questions],
                          [[c.id, c.input] for c in result.external_calls]]), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


async def test_killed_session_resumes_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    child = await trio.run_process(
        [sys.executable, "-c", _CHILD, str(path)], capture_stdout=True, check=False
    )
    assert child.returncode == -signal.SIGKILL
    (question,), ((page, arguments),) = json.loads(child.stdout)
    options = agent(["outside", "careful"])
    async with open_runtime(store=SqliteStore(path)) as runtime:
        seen = await runtime.sessions.snapshot("s")
        assert seen is not None
        assert [one.id for one in seen.questions] == [question]
        assert [(one.id, one.input) for one in seen.external_calls] == [(page, arguments)]
        later = attrs.evolve(options, provider=ScriptedModel(["Done."]))
        result = await runtime.resume("s", {question: "yes"}, later, results={page: "Welcome"})
        assert result.text == "Done."
        answered = [message.content for message in result.messages if message.role == "tool"]
        assert answered == ["Welcome", "was let do 1"]

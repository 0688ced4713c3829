"""A session change that is cancelled at any step is carried out completely or not at all."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from agent_actors import Messages, Runtime, open_runtime
from agent_actors.abc import AppendOutcome, LogAppend
from agent_actors.domain.events import AnyEvent
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import cancel_at_every_step
from agent_actors.testing.cancel import StepOutcome
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE
from tests.runtime.sessions.helpers import talk


class SlowStore(MemoryStore):
    """A store that sleeps before and after each operation."""

    async def load(self, session_id: str, *, after_seq: int = 0) -> Sequence[AnyEvent]:
        await trio.sleep(0.01)
        records = await super().load(session_id, after_seq=after_seq)
        await trio.sleep(0.01)
        return records

    async def append(self, batch: Sequence[LogAppend]) -> Sequence[AppendOutcome]:
        await trio.sleep(0.01)
        outcomes = await super().append(batch)
        await trio.sleep(0.01)
        return outcomes

    async def delete(self, session_id: str) -> None:
        await trio.sleep(0.01)
        await super().delete(session_id)
        await trio.sleep(0.01)


@asynccontextmanager
async def around() -> AsyncGenerator[Runtime]:
    async with open_runtime(store=SlowStore()) as runtime:
        await talk(runtime, *USE)
        yield runtime


async def change(runtime: Runtime, kind: str) -> None:
    sessions = runtime.sessions
    if kind == "fork":
        await sessions.fork("s", 2, new_id="new")
    elif kind == "import":
        lines = await sessions.export("s")
        await sessions.import_records(lines, session_id="new")
    elif kind == "import messages":
        messages = await sessions.export_messages("s")
        await sessions.import_messages(messages, session_id="new")
    elif kind == "rewind":
        await sessions.rewind("s", 2)
    elif kind == "replace":
        await sessions.replace("s", Messages().user("Other.").assistant("Yes.").user("And?"))
    else:
        await sessions.delete("s")


# Number of records of the session before the change.
RECORDS = 9
# Number of records that each change adds to the session, and number of records of the new session.
CHANGES = {
    "fork": (0, 3),
    "import": (0, 10),
    "import messages": (0, 5),
    "rewind": (1, 0),
    "replace": (4, 0),
    "delete": (None, 0),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_cancelled_change_is_complete_or_absent(kind: str) -> None:
    more, new = CHANGES[kind]
    seen: set[bool] = set()

    async def check(step: int, outcome: StepOutcome[Runtime]) -> None:
        runtime = outcome.subject
        check_quiet(runtime)
        count = len(await runtime.sessions.records("s"))
        made = len(await runtime.sessions.records("new"))
        done = (0 if more is None else RECORDS + more, new)
        assert (count, made) in {(RECORDS, 0), done}, (step, count, made)
        if not outcome.cancelled:
            assert (count, made) == done, "a call that returns has made its change"
        seen.add((count, made) == done)
        for name in ("s", "new"):
            await talk(runtime, "On.", session_id=name)
            check_history(await runtime.sessions.history(name) or Messages())
            assert await runtime.sessions.check(name) == ()

    assert cancel_at_every_step(partial(change, kind=kind), around=around, check=check) >= 5
    assert seen == {True, False}

"""Stores used without a runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from agent_actors import AgentOptions, open_runtime
from agent_actors.abc import SessionStore
from agent_actors.domain.blocks import TextBlock
from agent_actors.errors import ConfigError, SessionStoreError
from agent_actors.events import (
    AssistantDelta,
    AssistantMessage,
    Event,
    EventScope,
    UserMessage,
    bare_event,
)
from agent_actors.stores.alone import open_standalone
from agent_actors.testing import ScriptedModel
from tests.contracts.test_session_store import STORES
from tests.runtime.sessions.helpers import DISK


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
async def test_store_works_without_runtime(
    make: Callable[[Path], SessionStore], tmp_path: Path
) -> None:
    hi = bare_event(UserMessage, text="hi")
    response = bare_event(AssistantMessage, blocks=(TextBlock("Hello."),))
    async with open_standalone(make(tmp_path / "store"), wall_clock=lambda: 5.0) as alone:
        assert await alone.events("s") == ()
        first = await alone.append("s", hi, metadata={"n": 1})
        second = await alone.append("s", response)
        records = [one for one in await alone.events("s") if isinstance(one, Event)]
        assert records == [*first, *second]
        assert [(one.seq, one.ts) for one in records] == [(1, 5.0), (2, 5.0)]
        assert all(one.id and one.run_id for one in records)
        assert [one.content for one in await alone.messages("s")] == ["hi", "Hello."]
        [info] = (await alone.store.list_sessions(where={"n": 1})).sessions
        assert info.last_seq == 2


async def test_given_header_is_kept() -> None:
    event = UserMessage(EventScope("other", "r", "q"), "id", 3.0, "hi")
    async with open_standalone(STORES["MemoryStore"](Path())) as alone:
        [stored] = await alone.append("s", event)
    assert (stored.session_id, stored.run_id, stored.id, stored.ts) == ("s", "r", "id", 3.0)


async def test_unstorable_events_are_refused(tmp_path: Path) -> None:
    async with open_standalone(DISK["JsonlStore"](tmp_path / "store")) as alone:
        with pytest.raises(ConfigError, match=r"assistant\.delta events are only streamed"):
            await alone.append("s", bare_event(AssistantDelta, text="x"))
        with pytest.raises(SessionStoreError, match="nothing was written"):
            await alone.append("s", bare_event(UserMessage, text=cast(str, 3)))
        assert await alone.events("s") == ()


@pytest.mark.parametrize("kind", DISK)
async def test_runtime_continues_standalone_session(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with open_standalone(DISK[kind](path)) as alone:
        await alone.append("s", bare_event(UserMessage, text="My name is Ada."))
    options = AgentOptions(model="m", provider=ScriptedModel(["Ada."]))
    async with open_runtime(store=DISK[kind](path)) as runtime:
        result = await runtime.run("What is my name?", options, session_id="s")
    assert [one.content for one in result.messages][:1] == ["My name is Ada."]
    async with open_standalone(DISK[kind](path)) as alone:
        assert (await alone.messages("s")).as_tuple()[-1].content == "Ada."

"""Events that callers record are validated first, and read back as they were recorded."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_actors import Messages, open_runtime
from agent_actors.domain.blocks import ImageBlock, ToolResultBlock, ToolUseBlock
from agent_actors.domain.events import (
    Event,
    EventScope,
    FileChanged,
    Notification,
    SkillActivated,
    Todo,
    TodosChanged,
)
from agent_actors.domain.messages import Message, user
from agent_actors.errors import AgentError, InvalidEventError
from tests.codec.test_checked_events import anything
from tests.runtime.sessions.helpers import DISK, STORES, talk

KINDS = (TodosChanged, FileChanged, SkillActivated, Notification)


@st.composite
def drafts(draw: st.DrawFn) -> Any:
    """Generate drafts of the events that a caller may record, with arbitrary values in their
    fields.
    """
    cls = draw(st.sampled_from(KINDS))
    names = [field.name for field in attrs.fields(cls)][3:]
    return partial(cls, **{name: draw(anything) for name in names if name != "seq"})


@pytest.mark.parametrize("kind", DISK)
@settings(max_examples=25)
@given(made=st.lists(drafts(), min_size=1, max_size=2))
def test_recorded_events_read_back_or_are_refused(kind: str, made: list[Any]) -> None:
    async def look() -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "store"
            async with open_runtime(store=DISK[kind](path)) as runtime:
                try:
                    await runtime.sessions.record("s", *made)
                except InvalidEventError:
                    assert await runtime.sessions.info("s") is None
                    return
                recorded = await runtime.sessions.records("s")
                snapshot = await runtime.sessions.snapshot("s")
            async with open_runtime(store=DISK[kind](path)) as runtime:
                assert len(recorded) == len(made)
                assert await runtime.sessions.records("s") == recorded
                assert await runtime.sessions.snapshot("s") == snapshot
                assert await runtime.sessions.check("s") == ()

    trio.run(look)


def no_event(*_: object, **__: object) -> str:
    return "no event"


@pytest.mark.parametrize("kind", STORES)
async def test_wrong_values_leave_session_as_it_was(kind: str, tmp_path: Path) -> None:
    call = ToolUseBlock("c", "t", {})
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    async with open_runtime(store=STORES[kind](tmp_path / "store")) as runtime:
        await talk(runtime, "Fine.")
        sessions = runtime.sessions
        before = await sessions.records("s")
        bad = Todo("1", "x", cast(Any, "finished"))
        wrong: tuple[Any, ...] = (
            partial(TodosChanged, todos=(bad,)),
            partial(Notification, text=cast(Any, 3)),
            partial(Notification),
            partial(cast(Any, Notification), text="a", nothing=1),
            no_event,
        )
        for draft in wrong:
            with pytest.raises(InvalidEventError):
                await sessions.record("s", partial(SkillActivated, name="x"), draft)
        for messages in (
            Messages([Message("user", (ImageBlock(cast(Any, 3)),))]),
            Messages([Message("assistant", (attrs.evolve(call, input=cast(Any, 3)),))]),
            Messages(
                [Message("assistant", (call,)), Message("tool", (ToolResultBlock("c", cyclic),))]
            ),
        ):
            for change in (sessions.append, sessions.replace):
                with pytest.raises(AgentError):
                    await change("s", messages)
        assert await sessions.records("s") == before
        await sessions.append("s", Messages([user("And now?")]))
        await talk(runtime, "Fine too.")


@pytest.mark.parametrize("kind", STORES)
async def test_recorded_values_are_copies_under_own_header(kind: str, tmp_path: Path) -> None:
    data: dict[str, Any] = {"list": [1]}

    def forged(*_: object, **__: object) -> Event:
        return Notification(EventScope("other", "x", "x"), "clash", -5.0, "a", data, seq=99)

    async with open_runtime(store=STORES[kind](tmp_path / "store")) as runtime:
        await runtime.sessions.record("s", forged, forged)
        data["list"].append(2)
        one, two = await runtime.sessions.records("s")
        assert isinstance(one, Notification)
        assert isinstance(two, Notification)
        assert (one.session_id, one.seq, one.data) == ("s", 1, {"list": [1]})
        assert (two.seq, one.id == two.id, one.ts > 0) == (2, False, True)
        assert await runtime.sessions.check("s") == ()

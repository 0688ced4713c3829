"""Operations on sessions that no run holds, over every store."""

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio.testing

from agent_actors import AgentOptions, Messages, Runtime, open_runtime, tool
from agent_actors.abc import SessionStore
from agent_actors.domain.events import (
    FileChanged,
    Notification,
    SessionRewind,
    SkillActivated,
    Todo,
    TodosChanged,
    UserMessage,
)
from agent_actors.domain.messages import user
from agent_actors.domain.model import ModelRequest
from agent_actors.domain.session import SessionInfo
from agent_actors.errors import (
    ConfigError,
    InvalidEventError,
    MessageError,
    RuntimeClosed,
    SessionBusy,
    SessionExists,
    SessionStoreError,
    SessionUnknown,
)
from agent_actors.events import AnyEvent, Event
from agent_actors.hooks import SessionEndEvent
from agent_actors.runtime import wiring
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call
from tests.runs.helpers import check_history, check_quiet
from tests.runs.hooks.helpers import USE, asked
from tests.runtime.sessions.helpers import STORES, contents, talk, talker


class Clock:
    """The wall clock of the runtime; `days` moves it forward."""

    days: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.days * 86_400


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(wiring, "wall_clock", clock)
    return clock


@pytest.fixture(params=STORES)
async def runtime(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[Runtime]:
    async with open_runtime(store=STORES[request.param](tmp_path / "store")) as runtime:
        yield runtime
        check_quiet(runtime)


# Reading.


async def test_sessions_are_listed_by_page_and_metadata(runtime: Runtime) -> None:
    for name in ("a", "b", "c"):
        await talk(runtime, "Fine.", session_id=name)
    assert await runtime.sessions.annotate("b", {"user": "u1"})
    first = await runtime.list_sessions(limit=2)
    rest = await runtime.list_sessions(limit=2, after=first.next)
    assert [info.session_id for info in (*first.sessions, *rest.sessions)] == ["c", "b", "a"]
    assert rest.next is None
    found = await runtime.list_sessions(where={"user": "u1"})
    assert [info.session_id for info in found.sessions] == ["b"]
    with pytest.raises(ConfigError):
        await runtime.list_sessions(limit=0)


@pytest.mark.feature("WICK-032")
async def test_missing_session_is_none(runtime: Runtime) -> None:
    assert await runtime.sessions.info("s") is None
    assert await runtime.sessions.snapshot("s") is None
    assert await runtime.sessions.history("s") is None
    assert await runtime.sessions.records("s") == ()
    assert not await runtime.sessions.annotate("s", {"a": 1})
    for look in (
        runtime.sessions.export,
        runtime.sessions.export_messages,
        runtime.sessions.check,
        runtime.sessions.reset,
        runtime.sessions.fork,
        partial(runtime.sessions.export, after_seq=3),
    ):
        with pytest.raises(SessionUnknown, match="no session has this id"):
            await look("s")
    await talk(runtime, "Fine.")
    info = await runtime.sessions.info("s")
    assert info is not None
    assert info.last_seq == len(await runtime.sessions.records("s")) > 0


@pytest.mark.feature("OAGS-013")
@pytest.mark.parametrize("make", STORES.values(), ids=STORES.keys())
async def test_prompt_is_committed_before_model_call(
    make: Callable[[Path], SessionStore], tmp_path: Path
) -> None:
    class Model:
        async def complete(self, request: ModelRequest) -> str:
            stored.extend(await store.load("s"))
            return "Done."

    stored: list[AnyEvent] = []
    store = make(tmp_path / "store")
    async with open_runtime(store=store) as runtime:
        await runtime.run("Go.", AgentOptions(model="m", provider=Model()), session_id="s")
    assert [event.text for event in stored if isinstance(event, UserMessage)] == ["Go."]


@pytest.mark.feature("WICK-007", "WICK-025", "WICK-096")
async def test_session_totals(runtime: Runtime) -> None:
    await talk(runtime, *USE)
    todo = Todo("1", "Look.", "in_progress")
    await runtime.sessions.record(
        "s",
        partial(TodosChanged, todos=(attrs.evolve(todo, status="pending"), Todo("2", "Go."))),
        partial(FileChanged, path="a.txt", content="old"),
        partial(FileChanged, path="b.txt", content="gone"),
        partial(TodosChanged, todos=(todo,)),
        partial(FileChanged, path="a.txt", content="text"),
        partial(FileChanged, path="b.txt", content=None),
        partial(SkillActivated, name="search"),
        partial(Notification, text="noted"),
    )
    state = await runtime.sessions.snapshot("s")
    assert state is not None
    assert (state.session_id, state.todos, state.skills) == ("s", (todo,), ("search",))
    assert state.files == {"a.txt": "text"}
    assert state.messages == runtime.history("s")
    assert [message.content for message in state.messages] == ["Go.", "", "said a", "Done."]
    assert state.usage.output_tokens > 0
    assert state.requests == 2
    assert state.metadata["model"] == "m"
    assert (state.open_calls, state.questions) == ((), ())
    with pytest.raises(ConfigError, match="got UserMessage"):
        await runtime.sessions.record("s", partial(UserMessage, text="no"))
    assert await runtime.sessions.check("s") == ()


@pytest.mark.feature("OAGS-060")
async def test_active_skills_are_in_prompt(runtime: Runtime) -> None:
    await runtime.sessions.record("s", partial(SkillActivated, name="search"))
    mark = len(await runtime.sessions.records("s"))
    await runtime.sessions.record("s", partial(SkillActivated, name="draw"))
    options = attrs.evolve(talker(*USE, "Again."), system_prompt="Be brief.")
    await runtime.run("Go.", options, session_id="s")
    await runtime.sessions.rewind("s", mark)
    await runtime.run("Go.", options, session_id="s")
    assert [request.system_prompt for request in asked(options)] == [
        "Be brief.\n\nActive skills: search, draw",
        "Be brief.\n\nActive skills: search, draw",
        "Be brief.\n\nActive skills: search",
    ]


async def test_invalid_id_is_refused(runtime: Runtime) -> None:
    for bad in ("", "a\nb", "x" * 257):
        with pytest.raises(SessionStoreError):
            await runtime.sessions.history(bad)
        with pytest.raises(SessionStoreError):
            await runtime.sessions.delete(bad)
        with pytest.raises(SessionStoreError):
            await runtime.sessions.append(bad, Messages().user("hi"))


async def test_closed_runtime_has_no_sessions() -> None:
    async with open_runtime() as runtime:
        pass
    with pytest.raises(RuntimeClosed):
        await runtime.list_sessions()
    with pytest.raises(RuntimeClosed):
        await runtime.sessions.fork("s")
    with pytest.raises(RuntimeClosed):
        await runtime.sessions.reset("s")


async def test_store_failure_is_reported(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Broken(MemoryStore):
        async def info(self, session_id: str) -> SessionInfo | None:
            raise OSError("no disk")

        async def export(self, session_id: str, *, after_seq: int = 0) -> Sequence[bytes]:
            await trio.sleep_forever()
            raise AssertionError

    async with open_runtime(store=Broken()) as runtime:
        with pytest.raises(SessionStoreError, match="the store failed: OSError: no disk"):
            await runtime.sessions.info("s")
        with pytest.raises(SessionStoreError, match="did not respond within 10 s"):
            await runtime.sessions.records("s")


# Changing.


@pytest.mark.feature("ASDK-044")
async def test_history_can_be_appended_replaced_reset(runtime: Runtime) -> None:
    await runtime.sessions.append("s", Messages().user("Hi.").assistant("Hello."))
    history = await runtime.sessions.append("s", Messages().user("More."))
    assert (len(history), history.last_content()) == (3, "More.")
    assert [message.role for message in history.as_tuple()] == ["user", "assistant", "user"]
    replaced = await runtime.sessions.replace("s", Messages().user("Other."))
    assert [message.content for message in replaced] == ["Other."]
    await talk(runtime, "Fine.")
    assert await contents(runtime) == ["Other.", "Go.", "Fine."]
    await runtime.sessions.reset("s")
    assert await contents(runtime) == []
    await talk(runtime, "Again.")
    assert await contents(runtime) == ["Go.", "Again."]
    records = await runtime.sessions.records("s")
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert sum(isinstance(record, SessionRewind) for record in records) == 2
    assert await runtime.sessions.check("s") == ()


async def test_invalid_conversation_changes_nothing(runtime: Runtime) -> None:
    await talk(runtime, "Fine.")
    before = await runtime.sessions.export("s")
    for messages in (Messages().system("no"), Messages([user("")])):
        with pytest.raises(MessageError):
            await runtime.sessions.append("s", messages)
        with pytest.raises(MessageError):
            await runtime.sessions.replace("s", messages)
    assert await runtime.sessions.export("s") == before


async def test_a_rewind_goes_back_and_forth(runtime: Runtime) -> None:
    await talk(runtime, "One.")
    mark = len(await runtime.sessions.records("s"))
    await talk(runtime, "Two.")
    back = await runtime.sessions.rewind("s", mark)
    assert [message.content for message in back] == ["Go.", "One."]
    again = await runtime.sessions.rewind("s", mark + 3)
    assert [message.content for message in again][:3] == ["Go.", "One.", "Go."]
    for bad in (-1, 1000):
        with pytest.raises(ConfigError, match=rf"to_seq must be from 0 to \d+.*got {bad}"):
            await runtime.sessions.rewind("s", bad)


async def test_next_run_closes_reopened_call(
    runtime: Runtime,
) -> None:
    await talk(runtime, *USE)
    records = await runtime.sessions.records("s")
    used = next(r.seq for r in records if r.type == "tool.use")
    assert used is not None
    history = await runtime.sessions.rewind("s", used)
    check_history(history)
    state = await runtime.sessions.snapshot("s")
    assert state is not None
    assert len(state.open_calls) == 1
    await talk(runtime, "On.")
    check_history(await runtime.sessions.history("s") or Messages())
    repaired = [
        json.loads(line)
        for line in await runtime.sessions.export("s")
        if '"synthetic":true' in line
    ]
    assert len(repaired) == 1
    assert repaired[0]["tool_use_id"] == state.open_calls[0]
    state = await runtime.sessions.snapshot("s")
    assert state is not None
    assert state.open_calls == ()


async def test_fork_diverges_at_given_point(runtime: Runtime) -> None:
    await talk(runtime, "One.")
    await runtime.sessions.annotate("s", {"title": "t", "parent_session_id": "p"})
    await talk(runtime, "Two.")
    mark = (len(await runtime.sessions.records("s"))) // 2
    fork = await runtime.sessions.fork("s", mark)
    assert await contents(runtime, fork) == ["Go.", "One."]
    await talk(runtime, "Three.", session_id=fork)
    assert await contents(runtime, fork) == ["Go.", "One.", "Go.", "Three."]
    assert await contents(runtime) == ["Go.", "One.", "Go.", "Two."]
    info = await runtime.sessions.info(fork)
    assert info is not None
    assert (info.metadata["forked_from"], info.metadata["forked_at_seq"]) == ("s", mark)
    assert info.metadata["title"] == "t"
    assert "parent_session_id" not in info.metadata
    whole = await runtime.sessions.fork("s", new_id="whole")
    assert whole == "whole"
    assert await contents(runtime, "whole") == await contents(runtime)
    for name in (fork, "whole", "s"):
        assert await runtime.sessions.check(name) == ()
    with pytest.raises(SessionExists):
        await runtime.sessions.fork("s", new_id="whole")
    with pytest.raises(SessionExists):
        await runtime.sessions.fork("s", new_id="s")
    for bad in (0, 1000):
        with pytest.raises(ConfigError, match=rf"at_seq must be from 1 to \d+.*got {bad}"):
            await runtime.sessions.fork("s", bad)


@pytest.mark.feature("WICK-033")
async def test_deleted_session_restarts_empty(runtime: Runtime) -> None:
    await talk(runtime, "One.")
    assert await runtime.sessions.delete("s")
    assert runtime.history("s") is None
    assert await runtime.sessions.info("s") is None
    assert not await runtime.sessions.delete("s")
    await talk(runtime, "Two.")
    assert await contents(runtime) == ["Go.", "Two."]
    assert (await runtime.sessions.records("s"))[0].seq == 1


async def test_deleted_session_fires_end_hooks() -> None:
    reasons: list[str] = []

    async def end(event: SessionEndEvent) -> None:
        reasons.append(event.reason)

    options = attrs.evolve(talker("One."), hooks={"session_end": end})
    async with open_runtime() as runtime:
        await runtime.run("Go.", options, session_id="s")
        await runtime.sessions.delete("s")
        await trio.testing.wait_all_tasks_blocked()
        assert reasons == ["deleted"]
    assert reasons == ["deleted"]


async def test_old_sessions_are_deleted_and_begin_anew(runtime: Runtime, clock: Clock) -> None:
    await talk(runtime, "One.", session_id="old")
    clock.days = 3
    await talk(runtime, "One.", session_id="new")
    assert await runtime.sessions.prune(2) == ("old",)
    assert runtime.history("old") is None
    await talk(runtime, "Two.", session_id="old")
    assert await contents(runtime, "old") == ["Go.", "Two."]
    with pytest.raises(ConfigError, match="above 0"):
        await runtime.sessions.prune(0)


async def test_fork_and_import_are_fresh(runtime: Runtime, clock: Clock) -> None:
    await talk(runtime, "One.")
    lines = await runtime.sessions.export("s")
    clock.days = 3
    fork = await runtime.sessions.fork("s")
    copy = await runtime.sessions.import_records(lines, session_id="copy")
    assert await runtime.sessions.prune(2) == ("s",)
    for name in (fork, copy):
        assert await contents(runtime, name) == ["Go.", "One."]


# Exporting and importing.


async def test_export_import_round_trips(runtime: Runtime) -> None:
    await talk(runtime, *USE)
    lines = await runtime.sessions.export("s")
    with pytest.raises(SessionExists):
        await runtime.sessions.import_records(lines)
    assert await runtime.sessions.import_records(lines, session_id="copy") == "copy"
    assert await contents(runtime, "copy") == await contents(runtime)
    await runtime.sessions.delete("s")
    assert await runtime.sessions.import_records([*lines, "", " \n"]) == "s"
    again = await runtime.sessions.export("s")
    assert again[:-1] == lines
    assert json.loads(again[-1])["text"] == "imported"
    assert await runtime.sessions.export("s", after_seq=len(lines)) == again[-1:]
    assert await runtime.sessions.export("s", after_seq=99) == ()
    await talk(runtime, "On.")
    assert (await contents(runtime) or [])[-1] == "On."


async def test_unknown_records_survive_everything(
    runtime: Runtime,
) -> None:
    await talk(runtime, "Fine.")
    lines = list(await runtime.sessions.export("s"))
    seq = len(lines) + 1
    known = json.loads(lines[-1])
    lines[-1] = json.dumps({**known, "x_field": {"deep": [1, 2.50]}})
    lines.append(json.dumps({**known, "type": "x.later", "seq": seq, "data": [None]}))
    await runtime.sessions.import_records(lines, session_id="t")
    await talk(runtime, "On.", session_id="t")
    fork = await runtime.sessions.fork("t")
    for name in ("t", fork):
        exported = [json.loads(line) for line in await runtime.sessions.export(name)]
        wanted = [{**json.loads(line), "session_id": name} for line in lines]
        assert exported[:seq] == wanted
        assert await runtime.sessions.check(name) == ()


BAD: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "got none"),
    "no JSON": (["{"], "expected a record as JSON"),
    "no text": (['{"type":"notification"}'], "missing required field `text`"),
    "a gap": (['{"type":"x","session_id":"t","seq":2}'], "record 1 has the number 2"),
}


@pytest.mark.parametrize("case", BAD)
async def test_foreign_records_are_refused(case: str) -> None:
    lines, why = BAD[case]
    async with open_runtime() as runtime:
        with pytest.raises(InvalidEventError, match=re.escape(why)):
            await runtime.sessions.import_records(lines)
        assert (await runtime.list_sessions()).sessions == ()


async def test_openai_messages_import_and_export(runtime: Runtime) -> None:
    wire: list[dict[str, object]] = [
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "name": "t", "content": "done"},
        {"role": "assistant", "content": "Done."},
    ]
    head: dict[str, object] = {"role": "system", "content": "Be brief."}
    made = await runtime.sessions.import_messages([head, *wire])
    found = await runtime.sessions.export_messages(made)
    assert [message["role"] for message in found] == ["user", "assistant", "tool", "assistant"]
    assert await runtime.sessions.import_messages(found, session_id="again") == "again"
    assert await runtime.sessions.export_messages("again") == found
    with pytest.raises(SessionExists):
        await runtime.sessions.import_messages(wire, session_id="again")
    with pytest.raises(MessageError, match="message 0"):
        await runtime.sessions.import_messages([{"role": "nobody"}])
    with pytest.raises(MessageError):
        await runtime.sessions.import_messages([*wire, head])


# During runs.


async def test_held_session_is_read_only(runtime: Runtime) -> None:
    async with runtime.stream("Go.", talker(*USE), session_id="s") as events:
        async for event in events:
            if event.type == "user.message":
                break
        for change in (
            partial(runtime.sessions.rewind, "s", 0),
            partial(runtime.sessions.reset, "s"),
            partial(runtime.sessions.replace, "s", Messages()),
            partial(runtime.sessions.append, "s", Messages()),
            partial(runtime.sessions.fork, "s"),
            partial(runtime.sessions.delete, "s"),
            partial(runtime.sessions.record, "s"),
            partial(runtime.sessions.import_records, ['{"type":"x","session_id":"s","seq":1}']),
            partial(runtime.sessions.import_messages, [], session_id="s"),
        ):
            with pytest.raises(SessionBusy):
                await change()
        assert (await contents(runtime) or [])[:1] == ["Go."]
        assert await runtime.sessions.annotate("s", {"a": 1})
        assert await runtime.sessions.check("s") == ()


async def test_tool_cannot_change_own_session() -> None:
    async with open_runtime() as runtime:

        @tool
        async def back() -> str:
            """Go back."""
            await runtime.sessions.reset("s")
            return "never"

        options = AgentOptions(
            model="m", provider=ScriptedModel([call("back", {}), "Oh."]), tools=[back]
        )
        result = await runtime.run("Go.", options, session_id="s")
        assert "is using it" in str(result.tool_calls[0].content)


async def test_observers_see_session_changes(runtime: Runtime) -> None:
    seen: list[AnyEvent] = []

    async def note(event: Event) -> None:
        seen.append(event)

    with runtime.subscribe(note, session_id="s"):
        await runtime.sessions.append("s", Messages().user("Hi."))
        await runtime.sessions.rewind("s", 0)
        await trio.testing.wait_all_tasks_blocked()
    assert [event.type for event in seen] == ["user.message", "session.rewind"]
    assert [event.seq for event in seen] == [1, 2]

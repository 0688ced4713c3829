"""`agent-actors` processes continue a stored session after one of them was killed."""

from pathlib import Path

import pytest
import trio

from agent_actors import open_runtime
from agent_actors.testing import ScriptedEndpoint, hang, reply, say
from tests.cli.helpers import PATIENCE, Ended, agent_actors, at, running
from tests.runs.hooks.helpers import USE
from tests.runtime.sessions.helpers import DISK, talk


def said_to(endpoint: ScriptedEndpoint) -> list[str]:
    """Return the contents of the messages in the last request."""
    messages = endpoint.requests[-1].body["messages"]
    assert isinstance(messages, list)
    return [str(one["content"]) for one in messages if isinstance(one, dict)]


on_disk = pytest.mark.parametrize("kind", DISK)


def place(kind: str, tmp_path: Path) -> Path:
    """Return a path for the store; create a directory if the store needs one."""
    path = tmp_path / "store"
    if kind == "JsonlStore":
        path.mkdir()
    return path


@on_disk
async def test_session_continues_after_kill(kind: str, tmp_path: Path) -> None:
    path = place(kind, tmp_path)
    script = [reply(say("One.")), reply(say("Two "), hang()), reply(say("Three."))]
    on = ("--session", "s1", "--store", str(path))
    # Four programs run, and each start is slow on a loaded machine.
    with trio.fail_after(4 * PATIENCE):
        async with ScriptedEndpoint(script) as endpoint:
            first = await agent_actors("run", "First?", *at(endpoint), *on)
            assert (first.status, first.out) == (0, "One.\n")
            async with running("run", "Second?", *at(endpoint), *on) as it:
                await it.read_until("Two ")
                busy = await agent_actors("run", "Meanwhile?", *at(endpoint), *on)
                assert (busy.status, busy.out) == (1, "")
                assert "session 's1'" in busy.err
                it.process.kill()
                await it.process.wait()
            third = await agent_actors("run", "Third?", *at(endpoint), *on)

    assert third == Ended(0, "Three.\n", "")
    sent = said_to(endpoint)
    assert sent == ["First?", "One.", "Second?", "Third?"]
    async with open_runtime(store=DISK[kind](path)) as runtime:
        assert await runtime.sessions.check("s1") == ()
        records = await runtime.sessions.records("s1")
        assert [record.seq for record in records] == list(range(1, len(records) + 1))


async def test_run_without_session_shows_resume_command(tmp_path: Path) -> None:
    path = place("SqliteStore", tmp_path)
    on = ("--store", str(path))
    async with ScriptedEndpoint(["One.", "Two."]) as endpoint:
        first = await agent_actors("run", "First?", *at(endpoint), *on)
        note, _, session = first.err.strip().rpartition(" ")
        assert note == "note: to continue, pass --session"
        await agent_actors("run", "Second?", *at(endpoint), *on, "--session", session)
    sent = said_to(endpoint)
    assert sent == ["First?", "One.", "Second?"]


async def test_a_session_needs_a_store() -> None:
    ended = await agent_actors("run", "Hi", "--provider", "ollama", "--session", "s")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("error: --session requires --store PATH")


async def test_new_records_are_followed(tmp_path: Path) -> None:
    path = place("SqliteStore", tmp_path)
    store = DISK["SqliteStore"](path)
    with trio.fail_after(PATIENCE):
        async with open_runtime(store=store) as runtime:
            await talk(runtime, *USE)
        async with running("sessions", "tail", "s", "-f", "-n", "1", "--store", str(path)) as it:
            await it.read_until("Done.")
            async with open_runtime(store=DISK["SqliteStore"](path)) as runtime:
                await talk(runtime, "And more.", prompt="Then?")
            await it.read_until("And more.")
            it.interrupt()
            ended = await it.ended()
    assert (ended.status, ended.err) == (130, "interrupted\n")
    assert "Then?" in ended.out

"""The fixtures for pytest, used by a project in its own process."""

import re
from pathlib import Path

from agent_actors import AgentOptions, run
from agent_actors.testing import ScriptedEndpoint, recorded_client
from tests.program_helpers import run_program

PLUGIN = ("-p", "agent_actors.testing.pytest_plugin")

PROJECT = """
import trio
import pytest
from agent_actors import AgentOptions, run_sync
from agent_actors.testing import hang, do
from agent_actors.stores.memory import MemoryStore

store = MemoryStore()

@pytest.fixture
def runtime_options():
    return {"store": store}

async def test_passes(runtime, scripted_model, virtual_clock):
    agent = AgentOptions(model="m", provider=scripted_model(["Hello."]))
    assert (await runtime.run("Hi.", agent, session_id="s")).text == "Hello."
    await trio.sleep(3600)
    assert runtime.options.store is store

def test_sync_passes(scripted_endpoint):
    one, two = scripted_endpoint(["One."]), scripted_endpoint(["Two."])
    for endpoint, text in ((one, "One."), (two, "Two.")):
        assert run_sync("Hi.", AgentOptions(model="m", base_url=endpoint.base_url)).text == text
    assert len(one.requests) == 1

def test_script_is_too_short(scripted_endpoint):
    agent = AgentOptions(model="m", base_url=scripted_endpoint([]).base_url, max_retries=0)
    with pytest.raises(Exception):
        run_sync("Hi.", agent)

@pytest.fixture
async def nursery():
    async with trio.open_nursery() as nursery:
        yield nursery
        nursery.cancel_scope.cancel()

async def test_leaves_run(runtime, nursery, scripted_model):
    started = trio.Event()
    model = scripted_model([[do(started.set), hang()]])
    nursery.start_soon(runtime.run, "Hi.", AgentOptions(model="m", provider=model))
    await started.wait()
"""

PLAYS = """
def test_plays(recorded_client):
    recorded_client()
"""

RECORDS = """
from agent_actors import AgentOptions, run_sync

def test_recorded(recorded_client):
    agent = AgentOptions(model="m", base_url="{url}", http_client=recorded_client())
    assert run_sync("Hi.", agent).text == "Hello."
"""


async def outcome(folder: Path, *options: str) -> str:
    """Run the tests of a project, and return the report."""
    (folder / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n", encoding="utf-8")
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", *PLUGIN, *options, str(folder)]
    done = await run_program(arguments)
    return done.stdout.decode()


async def test_fixtures_pass_and_report_leftovers(fork_server: None, tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT + PLAYS, encoding="utf-8")
    report = await outcome(tmp_path, "-rA")
    lines = re.findall(r"(?m)^(PASSED|FAILED|ERROR) \S+::(test_\w+)", report)
    assert set(lines) == {
        ("PASSED", "test_passes"),
        ("PASSED", "test_sync_passes"),
        ("PASSED", "test_script_is_too_short"),
        ("ERROR", "test_script_is_too_short"),
        ("FAILED", "test_leaves_run"),
        ("FAILED", "test_plays"),
    }, report
    assert "the script has only 0 replies, but this is request 1" in report
    assert "make it with live=True, or with pytest --record-traffic" in report
    assert "1 runs are still live after the test" in report


async def test_option_records_traffic(fork_server: None, tmp_path: Path) -> None:
    async with ScriptedEndpoint(["Hello."]) as endpoint:
        text = RECORDS.format(url=endpoint.base_url)
        (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
        assert "1 passed" in await outcome(tmp_path, "--record-traffic")
    with recorded_client(record=tmp_path / "recordings/test_it.test_recorded.json") as client:
        agent = AgentOptions(model="m", base_url=endpoint.base_url, http_client=client)
        assert (await run("Hi.", agent)).text == "Hello."

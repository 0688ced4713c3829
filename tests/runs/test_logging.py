"""The messages that the library logs, with their levels and ids."""

import ast
import logging
import re
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import agent_actors
from agent_actors import AgentOptions, open_runtime, tool
from agent_actors.errors import (
    HookError,
    ProviderConnectError,
    ProviderDeadlineError,
    ProviderError,
    ProviderInBandError,
    ProviderStatusError,
)
from agent_actors.hooks import Hook
from agent_actors.logs import RunIds
from agent_actors.testing import ScriptedModel, call, fail, say

SECRET = "the prompt and sk-secret"
MINE = logging.getLogger("mine")


def refusal(status: int) -> ProviderStatusError:
    headers = {"retry-after": "1"}
    return ProviderStatusError(endpoint="e", status=status, body_message=SECRET, headers=headers)


def lines(caplog: pytest.LogCaptureFixture, module: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith(module)]


def ids_of(record: logging.LogRecord) -> tuple[object, ...]:
    fields = vars(record)
    return fields["session_id"], fields["run_id"], fields["request_id"]


def test_each_module_has_its_own_logger() -> None:
    root = Path(agent_actors.__file__).parent
    named = [
        (str(path), ast.unparse(node.args[0]))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger"
    ]
    assert len(named) > 5
    assert {name for path, name in named if "/cli/" not in path} == {"__name__"}


async def test_attempts_and_retries_are_logged(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    caplog.set_level(logging.DEBUG, "agent_actors")
    failures = (
        refusal(429),
        ProviderInBandError(SECRET, endpoint="e", code="overloaded_error"),
        ProviderConnectError(SECRET, endpoint="e"),
        ProviderDeadlineError(endpoint="e", kind="idle", seconds=1),
        ValueError(SECRET),
    )
    model = ScriptedModel([*map(fail, failures[:4]), [say("a")], fail(failures[4])])
    backup = AgentOptions(model="backup", provider=model)
    agent = AgentOptions(model="m", provider=model, max_retries=3, fallbacks=[backup])
    async with open_runtime() as runtime:
        await runtime.run(SECRET, agent, session_id="s")
        with pytest.raises(ProviderError):
            await runtime.run(SECRET, AgentOptions(model="m", provider=model), session_id="t")
    name = model.name
    attempts = lines(caplog, "model_stream")
    assert f"{name}: attempt with model m" in attempts
    assert f"{name}: retry with model m" in attempts
    assert f"{name}: fallback with model backup" in attempts
    for end in (
        "ProviderStatusError 429",
        "ProviderInBandError overloaded_error",
        "ProviderConnectError",
        "ProviderDeadlineError idle",
        "ValueError",
        "response with 1 blocks (stop)",
    ):
        assert any(line.startswith(f"{name}: {end} after ") for line in attempts), attempts
    assert any(": refusal 1; at most 1.0 unanswered requests" in line for line in attempts)
    assert any("request number 1 in the queue" in line for line in attempts)
    calls = lines(caplog, "model_calls")
    assert calls[0].startswith("attempt 1 failed (ProviderStatusError 429), retry in ")
    assert calls[-2:] == [
        "attempt 4 failed (ProviderDeadlineError idle), no retry",
        "model backup replaces m",
    ]
    assert lines(caplog, "endpoints") == [
        f"opened the endpoint {name}",
        f"closing the endpoint {name}",
    ]
    assert SECRET not in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


async def test_leases_and_evictions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "agent_actors")
    begun = trio.Event()

    @tool
    async def answer() -> str:
        """Wait."""
        begun.set()
        await trio.sleep_forever()
        raise AssertionError

    model = ScriptedModel([call("answer"), "Hello.", "Hello."])
    agent = AgentOptions(model="m", provider=model, tools=[answer])
    async with open_runtime(max_sessions=1) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: runtime.run("Go.", agent, session_id="s"))
        await begun.wait()
        await runtime.run("Go.", agent, session_id="s", on_busy="interrupt")
        await runtime.run("Go.", agent, session_id="t")
    leases = [re.sub(r"fence \d+", "a fence", line) for line in lines(caplog, "session_gate")]
    runs = [line.split()[3] for line in leases if "holds the lease" in line]
    assert leases[:5] == [
        f"session s: run {runs[0]} holds the lease with a fence",
        f"session s: run {runs[1]} waits for run {runs[0]}",
        f"session s: run {runs[0]} is asked to stop (interrupt)",
        f"session s: run {runs[0]} released the lease",
        f"session s: run {runs[1]} holds the lease with a fence",
    ]
    assert lines(caplog, "session_log") == ["session s is evicted from memory"]


async def test_filter_adds_ids_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ids = RunIds()
    caplog.handler.addFilter(ids)

    @tool
    def remember() -> str:
        """Log from a thread."""
        MINE.info("in a tool")
        return "done"

    model = ScriptedModel([call("remember"), "Hello.", "Hello."])
    agent = AgentOptions(model="m", provider=model, tools=[remember])
    try:
        async with open_runtime(max_sessions=1) as runtime:
            MINE.info("outside")
            result = await runtime.run("Go.", agent, session_id="s", request_id="r")
            await runtime.run("Go.", agent, session_id="t")
    finally:
        caplog.handler.removeFilter(ids)
    found = {record.getMessage(): ids_of(record) for record in caplog.records}
    assert found["outside"] == ("", "", "")
    assert found["in a tool"] == ("s", result.run_id, "r")
    # Another run needs room for "t".
    assert found["session s is evicted from memory"] == ("s", "", "")
    attempts = [record for record in caplog.records if record.name.endswith("model_stream")]
    assert ids_of(attempts[0]) == ("s", result.run_id, "r")


class Raising(Hook):
    """A hook with a bug."""

    name = "raising"

    async def before_model(self, event: object, ctx: object) -> None:
        raise RuntimeError("a bug of the hook")


async def test_hook_exception_is_logged_with_traceback(caplog: pytest.LogCaptureFixture) -> None:
    agent = AgentOptions(model="m", provider=ScriptedModel(["Hello."]), hooks=Raising())
    async with open_runtime() as runtime:
        with pytest.raises(HookError):
            await runtime.run("Go.", agent)
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "agent_actors.runs.hooks.hook_onion")
    assert record.getMessage() == "hook raising in before_model raised an exception"
    assert record.exc_info is not None
    assert "in before_model\n" in caplog.text  # the frame of the hook itself
    assert "RuntimeError: a bug of the hook" in caplog.text


async def test_late_hook_is_logged(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    async def before_model(event: object, context: object) -> None:
        await trio.sleep_forever()

    agent = AgentOptions(
        model="m", provider=ScriptedModel(["Hello."]), hooks={"before_model": [before_model]}
    )
    async with open_runtime() as runtime:
        with pytest.raises(HookError):
            await runtime.run("Go.", agent)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "in before_model: the hook did not decide within 60 s" in record.getMessage()

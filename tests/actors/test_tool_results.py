"""Every outcome of a tool is a result, and the context that a handler gets."""

import logging
import math
import traceback
from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agent_actors.actors.tool_executor import ToolExecutor
from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.tools import Tool, ToolContext, ToolOutput, tool
from tests.actors.helpers import Clock
from tests.actors.tool_helpers import Progress, call_of, nothing_is_held, run_of, run_one


@pytest.fixture
async def executor(nursery: trio.Nursery) -> ToolExecutor:
    made = ToolExecutor(Clock())
    await nursery.start(made.owner.serve)
    return made


@attrs.frozen
class Positive:
    number: int = attrs.field(validator=attrs.validators.gt(0))


def raises(error: BaseException) -> Callable[[dict[str, JsonValue]], None]:
    def handler(_: dict[str, JsonValue]) -> None:
        raise error

    return handler


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no such city"), "tool 'failing' raised ValueError: no such city"),
        (KeyError(), "tool 'failing' raised KeyError: no message"),
        (SystemExit(3), "tool 'failing' raised SystemExit: 3"),
        (
            ExceptionGroup("both", [ValueError(), TypeError()]),
            "tool 'failing' raised ExceptionGroup: both (2 sub-exceptions)",
        ),
        (
            BaseExceptionGroup("worse", [SystemExit(3)]),
            "tool 'failing' raised BaseExceptionGroup: worse (1 sub-exception)",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_tool_exception_becomes_an_error_result(
    executor: ToolExecutor, error: BaseException, expected: str, kind: str
) -> None:
    """Neither the caller nor the actor gets an exception."""

    async def later(_: dict[str, JsonValue]) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    failing = Tool("failing", "", None, later if kind == "async" else raises(error))
    for _ in range(2):
        found = await run_one(executor, run_of(failing), call_of(failing))
        assert found.is_error
        assert found.content == expected
    assert nothing_is_held(executor)


async def test_unknown_tool_error_lists_offered_tools(
    executor: ToolExecutor,
) -> None:
    one, two = (
        Tool("one", "", None, raises(Exception())),
        Tool("two", "", None, raises(Exception())),
    )
    found = await run_one(executor, run_of(two, one), call_of("three"))
    assert found.is_error
    assert found.content == "unknown tool 'three'; the available tools are: one, two"
    assert (found.started_at, found.duration) == (0, 0)
    found = await run_one(executor, run_of(), call_of("three"))
    assert found.content == "unknown tool 'three'; the available tools are: none"
    assert executor.statistics().calls == 0


async def test_bad_arguments_error_names_the_field(
    executor: ToolExecutor,
) -> None:
    calls: list[str] = []

    @tool
    async def weather(city: str, days: int = 1) -> str:
        calls.append(city)
        return city

    run = run_of(weather)
    found = await run_one(executor, run, call_of(weather, city="Paris", days="many"))
    assert found.is_error
    assert "days" in str(found.content)
    assert "expected integer" in str(found.content)
    found = await run_one(executor, run, call_of(weather))
    assert found.is_error
    assert "field city: required, but missing" in str(found.content)
    assert calls == []
    assert executor.statistics().calls == 0


@pytest.mark.parametrize(
    ("own", "of_run", "late_at"), [(None, 7.0, 7.0), (2.0, 7.0, 2.0), (9.0, 7.0, 9.0)]
)
async def test_missed_deadline_becomes_an_error_result(
    executor: ToolExecutor,
    autojump_clock: MockClock,
    own: float | None,
    of_run: float,
    late_at: float,
) -> None:
    @tool(timeout=own)
    async def stuck() -> None:
        await trio.sleep_forever()

    found = await run_one(executor, run_of(stuck, timeout=of_run), call_of(stuck))
    assert found.is_error
    assert found.content == f"tool 'stuck' did not finish within {late_at:g} s"
    assert found.duration == trio.current_time() == late_at
    assert nothing_is_held(executor)


async def test_tool_without_deadline_has_no_limit(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    @tool(timeout=math.inf)
    async def year() -> str:
        await trio.sleep(366 * 86_400)
        return "later"

    assert (await run_one(executor, run_of(year), call_of(year))).content == "later"


async def test_late_tool_is_awaited_during_cleanup(
    executor: ToolExecutor, autojump_clock: MockClock
) -> None:
    log: list[str] = []

    @tool(timeout=1)
    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            log.append("clean")

    found = await run_one(executor, run_of(slow), call_of(slow))
    assert found.is_error
    assert log == ["clean"]
    assert found.duration == 3.0


async def test_structured_data_is_kept_with_text(executor: ToolExecutor) -> None:
    @tool
    async def measured() -> ToolOutput:
        return ToolOutput("warm", data={"celsius": 21})

    found = await run_one(executor, run_of(measured), call_of(measured))
    assert (found.content, found.data, found.is_error) == ("warm", {"celsius": 21}, False)


@pytest.mark.feature("ASDK-036")
async def test_handler_gets_its_own_argument_copy(
    executor: ToolExecutor,
) -> None:
    async def spoil(arguments: dict[str, JsonValue]) -> str:
        items = arguments["items"]
        assert isinstance(items, list)
        items.append("spoiled")
        arguments["more"] = True
        return "done"

    spoiler = Tool("spoiler", "", None, spoil)
    call = call_of(spoiler, items=[1])
    found = await run_one(executor, run_of(spoiler), call)
    assert call.input == {"items": [1]}
    assert found.input == {"items": [1]}


@pytest.mark.feature("ASDK-038")
async def test_result_carries_start_end_and_duration(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    clock = Clock(100.0)
    executor = ToolExecutor(clock)
    await nursery.start(executor.owner.serve)

    @tool
    async def wait(until: float) -> None:
        await trio.sleep(2.5)
        clock.now = until

    run = run_of(wait)
    found = await run_one(executor, run, call_of(wait, until=102.5))
    assert (found.started_at, found.completed_at, found.duration) == (100.0, 102.5, 2.5)
    found = await run_one(executor, run, call_of(wait, until=50.0))
    assert (found.started_at, found.completed_at, found.duration) == (102.5, 102.5, 2.5)


async def test_handler_knows_its_run_and_call(executor: ToolExecutor) -> None:
    seen: list[object] = []

    @tool
    async def look(context: ToolContext) -> None:
        seen.extend(
            [
                context.session_id,
                context.run_id,
                context.request_id,
                context.call_id,
                context.tool_name,
                str(context.cwd),
                context.run.iteration,
                context.cancelled,
            ]
        )

    await run_one(executor, run_of(look), call_of(look, 9))
    assert seen == ["session", "run", "request", "call-9", "look", "/somewhere", 1, False]


async def test_async_progress_is_reported_immediately(
    executor: ToolExecutor,
) -> None:
    progress = Progress()

    @tool
    async def steps(context: ToolContext) -> None:
        state: list[JsonValue] = ["one"]
        context.report(state)
        assert len(progress.told) == 1
        state.append("two")
        context.report(state)

    await run_one(executor, run_of(steps, progress=progress), call_of(steps))
    assert progress.told == [("call-0", "steps", ["one"]), ("call-0", "steps", ["one", "two"])]


async def test_async_handler_sees_its_cancellation(executor: ToolExecutor) -> None:
    seen: list[bool] = []

    @tool
    async def look(context: ToolContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            seen.append(context.cancelled)

    request = await executor.submit(run_of(look), call_of(look))
    await wait_all_tasks_blocked()
    request.cancel("the run ended")
    await request.wait_done()
    assert seen == [True]


# --- the exception itself ---


def broken_validator(_: JsonObject) -> str | None:
    raise LookupError("in validator")


def fails_in_handler(arguments: dict[str, JsonValue]) -> None:
    raise LookupError("in handler")


async def fails_later(arguments: dict[str, JsonValue]) -> None:
    await trio.lowlevel.checkpoint()
    raise LookupError("in coroutine")


@pytest.mark.parametrize(
    ("failing", "function"),
    [
        (Tool("failing", "", None, fails_in_handler), "fails_in_handler"),
        (Tool("failing", "", None, fails_later), "fails_later"),
        (
            Tool("failing", "", None, fails_in_handler, validator=broken_validator),
            "broken_validator",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_tool_exception_is_kept_and_logged(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture, failing: Tool, function: str
) -> None:
    found = await run_one(executor, run_of(failing), call_of(failing, 7, key="a secret"))
    assert isinstance(found.exception, LookupError)
    assert traceback.extract_tb(found.exception.__traceback__)[-1].name == function
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "agent_actors.actors.tool_executor")
    assert record.exc_info is not None
    assert record.exc_info[1] is found.exception
    assert record.getMessage() == (
        "tool 'failing' raised LookupError (session session, run run, call call-7)"
    )
    assert "a secret" not in caplog.text


async def test_invalid_arguments_are_not_an_exception(
    executor: ToolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def size(width: Positive) -> str:
        return str(width)

    wrong: tuple[JsonObject, ...] = ({}, {"width": {"number": 0}})
    for arguments in wrong:
        found = await run_one(executor, run_of(size), ToolUseBlock("call-0", size.name, arguments))
        assert (found.is_error, found.exception) == (True, None)
    assert caplog.records == []

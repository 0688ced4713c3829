"""Results that are too long are truncated, marked and kept, and the model can read the rest."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from agent_actors import AgentOptions, Client, ToolOutput, ToolUseBlock, open_runtime, tool
from agent_actors.abc import SessionStore
from agent_actors.actors.kept_results import KeptResults
from agent_actors.domain.events import ToolResult
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.model import ModelRequest
from agent_actors.hooks import HookDecision, PostToolUseEvent
from agent_actors.permissions import PermissionPolicy
from agent_actors.stores.jsonl import JsonlStore
from agent_actors.stores.memory import MemoryStore
from agent_actors.stores.sqlite import SqliteStore
from agent_actors.testing import ScriptedModel, Turn, call
from agent_actors.tools import Tool
from tests.runs.helpers import check_history, check_quiet

LIMIT = 2000
TEXT = "".join(f"line {number} é\n" for number in range(1000))
SIZE = len(TEXT.encode())


def returning(value: object) -> Tool:
    @tool
    async def fetch() -> JsonValue:
        """Fetch a value."""
        return cast(JsonValue, value)

    return fetch


def _own(arguments: JsonObject) -> str:
    return f"mine, with {arguments}"


def read_on(offset: int, call_id: str = "c1") -> Turn:
    return [call("ReadResult", {"tool_use_id": call_id, "offset": offset})]


def agent(
    *turns: Turn, value: object = TEXT, max_result_bytes: float = LIMIT, **more: object
) -> AgentOptions:
    first: Turn = [call("fetch", id="c1")]
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([first, *turns, "Done."]),
        tools=[returning(value)],
        max_result_bytes=max_result_bytes,
    )
    return attrs.evolve(options, **more)  # type: ignore[arg-type]


def requests(options: AgentOptions) -> list[ModelRequest]:
    assert isinstance(options.provider, ScriptedModel)
    return options.provider.requests


def names(options: AgentOptions) -> list[list[str]]:
    return [[spec.name for spec in request.tools] for request in requests(options)]


async def run(options: AgentOptions) -> list[str]:
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
        check_history(result.messages)
        check_quiet(runtime)
    return [str(one.content) for one in result.tool_calls]


async def test_model_reads_rest_of_long_result() -> None:
    whole = b""
    calls = 0

    def script(request: ModelRequest) -> Turn:
        nonlocal whole, calls
        last = request.messages.last()
        assert last is not None
        if last.role != "tool":
            return [call("fetch", id="c1")]
        calls += 1
        text, _, notice = str(last.content).partition("\n\n[")
        assert len(str(last.content).encode()) <= LIMIT
        whole += text.encode()
        if "This is the end" in notice:
            return "Done."
        assert f"offset={len(whole)} " in notice
        assert f"of {SIZE}" in notice
        return read_on(len(whole))

    options = attrs.evolve(agent(), provider=ScriptedModel(script), max_iterations=50)
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options)
        check_history(result.messages)
    assert whole.decode() == TEXT
    assert calls == len(result.tool_calls)
    assert [one.complete_bytes for one in result.tool_calls] == [SIZE] + [0] * (calls - 1)
    assert names(options)[:3] == [["fetch"], ["fetch", "ReadResult"], ["fetch", "ReadResult"]]


async def test_results_within_the_limit_are_unchanged() -> None:
    exact = "x" * LIMIT
    options = agent(value=exact)
    assert await run(options) == [exact]
    assert names(options) == [["fetch"]] * 2
    assert await run(agent(value={"a": list(range(600))}, max_result_bytes=math.inf)) == [
        str({"a": list(range(600))})
    ]
    assert await run(agent(value={"a": list(range(400))})) == [str({"a": list(range(400))})]


@pytest.mark.parametrize(
    ("offset", "call_id", "words"),
    [
        (10**6, "c1", f"ends at byte {SIZE}"),
        (0, "other", "the calls with truncated results are: 'c1'"),
        (8, "c1", "These are bytes 9 to"),  # within a character
    ],
)
async def test_odd_reads_get_a_clear_result(offset: int, call_id: str, words: str) -> None:
    contents = await run(agent(read_on(offset, call_id)))
    assert words in contents[1]


async def test_dropped_text_is_reported() -> None:
    options = agent(read_on(0))
    async with open_runtime() as runtime:
        runtime._actors.kept_results._capacity = 100
        result = await runtime.run("Go.", options)
    assert "is no longer kept" in str(result.tool_calls[1].content)


async def test_blocks_and_objects_are_truncated() -> None:
    image: JsonValue = {"type": "image", "source": "data:image/png;base64," + "A" * 9000}
    text: JsonValue = {"type": "text", "text": "x" * 5000}
    async with open_runtime() as runtime:
        blocks = (await runtime.run("Go.", agent(value=[text, image]))).tool_calls[0]
        thing = (await runtime.run("Go.", agent(value={"k": "y" * 5000}))).tool_calls[0]
        fine = (await runtime.run("Go.", agent(value=[image]))).tool_calls[0]
    assert isinstance(blocks.content, list)
    assert blocks.content[1] == image
    assert "This result was cut" in str(blocks.content[2])
    assert blocks.complete_bytes == 5000 + len("[image]")
    assert str(thing.content).startswith('{"k": "yyy')
    assert fine.content == [image]


async def test_large_data_is_dropped_from_a_result() -> None:
    rows: list[JsonValue] = ["x" * 100] * 100
    data: JsonValue = {"rows": rows}
    async with open_runtime() as runtime:
        dropped, kept, thing = [
            (await runtime.run("Go.", agent(value=value))).tool_calls[0]
            for value in (
                ToolOutput("fine", data=data),
                ToolOutput("fine", data=["x" * 1000]),
                ToolOutput({"a": 1}, data="é" * 2000),
            )
        ]
    assert dropped.data is None
    assert "The structured data of this result" in str(dropped.content)
    assert dropped.complete_bytes == 0
    assert (kept.content, kept.data) == ("fine", ["x" * 1000])
    assert isinstance(thing.content, dict)
    assert "dropped" in str(thing.content["notice"])


async def test_hooks_see_results_before_truncation() -> None:
    async def redact(event: PostToolUseEvent) -> HookDecision | None:
        if event.tool_name != "fetch":
            return None
        return HookDecision(modified_output=str(event.tool_result).replace("line", "LINE"))

    contents = await run(agent(read_on(5000), hooks={"post_tool_use": redact}))
    assert all("LINE" in text and "line" not in text for text in contents)


@pytest.mark.parametrize("why", ["own tool", "policy"])
async def test_notice_names_no_missing_tool(why: str) -> None:
    options = agent()
    if why == "policy":
        options = attrs.evolve(options, permissions=PermissionPolicy(mode="bypass", deny=["Read*"]))
    else:
        own = Tool("ReadResult", "Mine.", None, _own)
        options = attrs.evolve(options, tools=[*options.tools, own])
    contents = await run(options)
    assert contents[0].endswith("The rest is not available.]")
    assert all(row.count("ReadResult") == (why == "own tool") for row in names(options))


async def test_later_runs_offer_read_result() -> None:
    store = MemoryStore()
    options = agent(read_on(3000))
    async with open_runtime(store=store) as runtime:
        first = attrs.evolve(options, provider=ScriptedModel([[call("fetch", id="c1")], "Done."]))
        await runtime.run("Go.", first, session_id="s")
        later = attrs.evolve(options, provider=ScriptedModel([read_on(3000), "Done."]))
        result = await runtime.run("Go.", later, session_id="s")
        assert "bytes 3000 to" in str(result.tool_calls[0].content)
        await runtime.sessions.delete("s")
        assert not runtime._actors.kept_results._texts
    records = [one for one in await store.load("s") if isinstance(one, ToolResult)]
    assert records == []


@pytest.mark.parametrize("kind", [SqliteStore, JsonlStore])
async def test_stores_on_disk_keep_complete_texts(
    kind: Callable[[Path], SessionStore], tmp_path: Path
) -> None:
    contents: list[str] = []
    for turn in ([call("fetch", id="c1")], read_on(3000)):
        options = attrs.evolve(agent(), provider=ScriptedModel([turn, "Done."]))
        async with open_runtime(store=kind(tmp_path / "store")) as runtime:  # as after a restart
            result = await runtime.run("Go.", options, session_id="s")
            contents.append(str(result.tool_calls[0].content))
    assert "These are bytes 3000 to" in contents[1]


async def test_whitelist_may_name_read_result() -> None:
    options = agent(read_on(10))
    async with open_runtime() as runtime:
        result = await runtime.run("Go.", options, tool_whitelist=["fetch", "ReadResult"])
    assert "These are bytes" in str(result.tool_calls[1].content)


async def test_supplied_results_are_truncated() -> None:
    ask = Tool("ask", "Ask.", None)
    model = ScriptedModel([[call("ask", id="c1")], read_on(100), "Done."])
    options = AgentOptions(model="m", provider=model, tools=[ask], max_result_bytes=LIMIT)
    async with open_runtime() as runtime:
        first = await runtime.run("Go.", options, session_id="s")
        assert [one.id for one in first.external_calls] == ["c1"]
        result = await runtime.resume("s", {}, options, results={"c1": TEXT})
    assert "These are bytes 100 to" in str(result.tool_calls[1].content)


@pytest.mark.parametrize("resumed", [False, True])
async def test_client_notice_names_no_missing_tool(resumed: bool) -> None:
    options = AgentOptions(
        model="m",
        provider=ScriptedModel([[call("ask", id="c1")]]),
        tools=[Tool("ask", "Ask.", None)],
        max_result_bytes=LIMIT,
        permissions=PermissionPolicy(mode="bypass", deny=["Read*"]),
        auto_execute_tools=True,
    )
    async with open_runtime() as runtime:
        async with Client(options, runtime=runtime, session_id="s") as first:
            await first.query("Go.")
            assert [block async for block in first.receive_messages()]
            if not resumed:
                await first.add_tool_result("c1", TEXT)
        async with Client(options, runtime=runtime, resume="s") as second:
            if resumed:
                await second.add_tool_result("c1", TEXT)
            assert str(second.history[-1]["content"]).endswith("The rest is not available.]")


async def test_client_results_are_truncated() -> None:
    options = agent()
    async with Client(options) as client:
        await client.query("Go.")
        found = [block async for block in client.receive_messages()]
        (block,) = [one for one in found if isinstance(one, ToolUseBlock)]
        await client.add_tool_result(block.id, TEXT)
        assert "The rest is not available." in str(client.history[-1])


class BrokenStore(MemoryStore):
    """A store that keeps no result texts: its calls fail or hang."""

    hangs = False

    async def keep_result(self, session_id: str, tool_use_id: str, chunks: Sequence[bytes]) -> None:
        if self.hangs:
            await trio.sleep_forever()
        raise OSError("disk full")

    async def read_result(
        self, session_id: str, tool_use_id: str, offset: int, size: int
    ) -> bytes | None:
        if self.hangs:
            await trio.sleep_forever()
        raise OSError("unreadable")


@pytest.mark.parametrize("hangs", [True, False])
async def test_failing_store_loses_only_the_rest(
    hangs: bool, autojump_clock: trio.testing.MockClock
) -> None:
    store = BrokenStore()
    store.hangs = hangs
    kept = KeptResults(store)
    assert not await kept.keep("s", "c", [b"x"])
    assert await kept.read("s", "c", 0, 10) is None
    async with open_runtime(store=store) as runtime:
        result = await runtime.run("Go.", agent())
    assert str(result.tool_calls[0].content).endswith("The rest is not available.]")


async def test_memory_keeps_most_recently_used_texts() -> None:
    kept = KeptResults(None, capacity=10)
    await kept.keep("s", "a", [b"aaaa"])
    await kept.keep("s", "b", [b"bb", b"bb"])
    assert await kept.read("s", "a", 0, 9) == b"aaaa"
    await kept.keep("s", "c", [b"cccc", b"dddd", b"eeee"])  # only its beginning
    assert [await kept.read("s", one, 1, 2) for one in "abc"] == [None, None, b"cc"]
    assert await kept.read("s", "c", 3, 3) == b"cdd"
    for _ in range(2):
        await kept.keep("s", "d", [b"d"])  # the second text replaces the first
    kept.forget("other")
    assert kept._used == 9
    kept.forget("s")
    assert (kept._used, await kept.read("s", "c", 0, 1)) == (0, None)

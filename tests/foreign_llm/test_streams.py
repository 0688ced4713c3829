"""Responses, tools and agent loops work with servers from other projects in both protocols."""

import pytest
import trio

from agent_actors import AgentOptions, StopReason, ThinkingBlock, Tool, open_runtime, tool
from agent_actors.domain.events import AssistantDelta, AssistantThinking
from tests.foreign_llm.fault_proxy import Fault, faulty
from tests.foreign_llm.targets import LONG, THOUGHT, Deed, Target
from tests.foreign_llm.tiny_model import ANSWER, CITIES, GREETING, LOOKING
from tests.runs.helpers import check_history, check_quiet


def barometer() -> Tool:
    """Return a tool whose calls wait for each other: a call on its own would never end."""
    both = trio.Event()
    asked: list[str] = []

    @tool
    async def weather(city: str) -> str:
        """Tell the weather."""
        asked.append(city)
        if len(asked) == len(CITIES):
            both.set()
        await both.wait()
        return f"{city}: fine"

    return weather


async def check_loop(options: AgentOptions) -> None:
    """Run the weather loop to its end and check it."""
    with trio.fail_after(LONG):
        async with open_runtime() as runtime:
            result = await runtime.run("look", options, session_id="s")
            check_history(result.messages)
            check_quiet(runtime)
    assert (result.text, result.stop_reason) == (ANSWER, StopReason.COMPLETED)
    assert result.iterations == 2
    assert [call.input for call in result.tool_calls] == [{"city": city} for city in CITIES]
    assert [call.content for call in result.tool_calls] == [f"{city}: fine" for city in CITIES]
    asking = result.messages[1]
    assert asking.content.strip() == LOOKING
    assert len({call.id for call in asking.tool_calls}) == len(CITIES)


async def test_response_streams_incrementally(target: Target) -> None:
    await target.prepare("greet")
    async with (
        open_runtime() as runtime,
        runtime.stream("greet", target.options(), session_id="s") as events,
    ):
        seen = [event async for event in events]
        result = events.result
    deltas = [event.text for event in seen if isinstance(event, AssistantDelta)]
    assert "".join(deltas) == result.text == GREETING
    assert len(deltas) > 5
    assert result.stop_reason == StopReason.COMPLETED
    assert result.usage.output_tokens > 0


async def test_tools_run_in_parallel_to_completion(target: Target) -> None:
    await target.prepare("look")
    await check_loop(target.options(tools=[barometer()]))


async def test_single_byte_reads_change_nothing(target: Target, nursery: trio.Nursery) -> None:
    await target.prepare("look")
    slow = Fault(piece=1)
    url = await faulty(nursery, target.url, slow, slow)
    await check_loop(target.options(url=url, tools=[barometer()]))


async def test_server_accepts_its_own_history(target: Target) -> None:
    await target.prepare("greet", "look", "greet")
    async with open_runtime() as runtime:
        first = await runtime.run("greet", target.options(), session_id="s")
        then = await runtime.run("look", target.options(tools=[barometer()]), session_id="s")
        last = await runtime.run("greet", target.options(), session_id="s")
    assert [first.text, then.text, last.text] == [GREETING, ANSWER, GREETING]
    check_history(last.messages)
    roles = [message.role for message in last.messages]
    looked = ["user", "assistant", "tool", "tool", "assistant"]
    assert roles == ["user", "assistant", *looked, "user", "assistant"]


async def test_parallel_sessions_each_get_a_response(target: Target) -> None:
    greetings: list[Deed] = ["greet"] * 20
    await target.prepare(*greetings)
    options, texts = target.options(), list[str]()
    async with open_runtime() as runtime, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            result = await runtime.run("greet", options, session_id=f"s{number}")
            texts.append(result.text)

        for number in range(20):
            nursery.start_soon(one, number)
    assert texts == [GREETING] * 20


async def test_truncated_response_reports_length(target: Target) -> None:
    # llama.cpp's server counts tokens; the other two report the counts that they are given.
    await target.prepare("length")
    async with open_runtime() as runtime:
        result = await runtime.run("length", target.options(max_tokens=5), session_id="s")
    assert result.stop_reason == StopReason.LENGTH
    assert GREETING.startswith(result.text)
    check_history(result.messages)


@pytest.mark.parametrize(
    "target", [("aimock", "openai"), ("aimock", "anthropic")], ids="-".join, indirect=True
)
async def test_thinking_is_separated_and_sent_back(target: Target) -> None:
    async with open_runtime() as runtime:
        async with runtime.stream("think", target.options(), session_id="s") as events:
            seen = [event async for event in events]
            result = events.result
        again = await runtime.run("greet", target.options(), session_id="s")
    thoughts = [event.text for event in seen if isinstance(event, AssistantThinking)]
    assert "".join(thoughts) == THOUGHT
    assert (result.text, again.text) == (GREETING, GREETING)
    kept = [block for block in result.messages[-1].blocks if isinstance(block, ThinkingBlock)]
    assert [block.thinking for block in kept] == [THOUGHT]

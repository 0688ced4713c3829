"""Only the newest messages of a long session are sent, but all are kept and returned."""

import math

import pytest

from agent_actors import AgentOptions, Messages, open_runtime
from agent_actors.errors import ConfigError
from agent_actors.testing import ScriptedModel
from tests.runs.helpers import check_history
from tests.runs.hooks.helpers import USE, asked, echo


def agent(*, events: float = 1000, size: float = 2_000_000) -> AgentOptions:
    return AgentOptions(
        model="m",
        provider=ScriptedModel([*USE, *USE]),
        tools=[echo],
        system_prompt="x" * 5000,
        resume_max_events=events,
        resume_max_bytes=size,
    )


def long(turns: int) -> Messages:
    messages = Messages()
    for turn in range(turns):
        messages = messages.user(f"Question {turn}.").assistant(f"Answer {turn}.")
    return messages


@pytest.mark.feature("OAGS-093", "OAGS-095")
async def test_long_session_sends_newest_messages() -> None:
    options = agent(events=20)
    async with open_runtime() as runtime:
        await runtime.sessions.append("s", long(600))
        result = await runtime.run("Go.", options, session_id="s")
        assert len(result.messages) == 1204, "all messages are kept"
        assert runtime.history("s") == result.messages
    first, second = asked(options)
    # The prompt and the 18 messages before it; then also a call and its result, which this run
    # made.
    assert [message.content for message in first.messages][:2] == ["Question 591.", "Answer 591."]
    assert len(first.messages) == 19
    assert len(second.messages) == 19
    assert second.messages[-3].content == "Go."
    for request in (first, second):
        check_history(request.messages)
        assert request.system_prompt == "x" * 5000, "the system prompt does not count"


async def test_a_thousand_messages_are_sent_by_default() -> None:
    options = agent()
    async with open_runtime() as runtime:
        await runtime.sessions.append("s", long(600))
        await runtime.run("Go.", options, session_id="s")
    assert len(asked(options)[0].messages) == 999


@pytest.mark.feature("OAGS-096", "OAGS-094")
async def test_window_stays_within_bytes_with_pairs() -> None:
    options = agent(size=1800)
    async with open_runtime() as runtime:
        for _ in range(2):
            await runtime.run("y" * 800, options, session_id="s")
    last = asked(options)[-1]
    assert [message.role for message in last.messages] == ["user", "assistant", "tool"]
    assert len(asked(options)[1].messages) == 3
    check_history(last.messages)


async def test_limit_is_positive_or_absent() -> None:
    options = agent(events=math.inf, size=math.inf)
    async with open_runtime() as runtime:
        await runtime.sessions.append("s", long(600))
        await runtime.run("Go.", options, session_id="s")
    assert len(asked(options)[0].messages) == 1201
    for bad in (0, math.nan, -1):
        with pytest.raises(ConfigError, match="resume_max_events must be at least 1"):
            agent(events=bad)
        with pytest.raises(ConfigError, match="resume_max_bytes must be at least 1"):
            agent(size=bad)

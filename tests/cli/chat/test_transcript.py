"""The records of a session are shown as a transcript when a chat resumes the session."""

from collections.abc import Sequence

import pytest

from agent_actors import AgentOptions, Tool, open_runtime
from agent_actors.cli.chat.messages import ChatMessage
from agent_actors.cli.chat.tools import demo_tools
from agent_actors.cli.chat.transcript import as_markdown, read_transcript, transcript_messages
from agent_actors.domain.blocks import ImageBlock, TextBlock
from agent_actors.domain.messages import Message, Messages
from agent_actors.errors import EventError
from agent_actors.stores.memory import MemoryStore
from agent_actors.testing import ScriptedModel, call


def options(model: ScriptedModel, tools: Sequence[Tool] = ()) -> AgentOptions:
    return AgentOptions(model="scripted", provider=model, tools=tuple(tools))


async def test_rewound_turns_are_absent_from_transcript() -> None:
    store = MemoryStore()
    model = ScriptedModel(["First.", "Second.", "Third."])
    async with open_runtime(store=store) as runtime:
        for prompt in ("one", "two"):
            await runtime.run(prompt, options(model), session_id="s")
        seen = read_transcript(await store.export("s"))
        assert [prompt.text for prompt in seen.prompts] == ["one", "two"]
        seq = seen.prompts[1].seq
        assert seq is not None
        await runtime.sessions.rewind("s", seq - 1)
        assert [m.content for m in read_transcript(await store.export("s")).state.history()] == [
            *("one", "First."),
        ]
        await runtime.run("three", options(model), session_id="s")
        seen = read_transcript(await store.export("s"))

    assert [prompt.text for prompt in seen.prompts] == ["one", "three"]
    assert [m.content for m in model.requests[2].messages] == ["one", "First.", "three"]


async def test_transcript_shows_calls_and_result_previews() -> None:
    store = MemoryStore()
    model = ScriptedModel([[call("calculate", {"formula": "6*7"})], "**42**, \x1b[2J."])
    async with open_runtime(store=store) as runtime:
        await runtime.run("What?", options(model, tools=demo_tools()), session_id="s")
        messages = read_transcript(await store.export("s")).state.history()

    lines = list(transcript_messages(messages))
    assert lines == [
        ChatMessage("you:", "heading"),
        ChatMessage("What?"),
        ChatMessage("model:", "heading"),
        ChatMessage('call: calculate(formula="6*7")', "dim"),
        ChatMessage("  42", "dim"),
        ChatMessage("model:", "heading"),
        ChatMessage("**42**, \x1b[2J.", "markdown"),
    ]
    assert list(transcript_messages(messages, 1)) == [
        ChatMessage("... (3 messages before)", "dim"),
        *lines[-2:],
    ]
    assert as_markdown(messages) == (
        "## You\n\nWhat?\n\n"
        '## Model\n\n- call: `calculate(formula="6*7")`\n\n'
        "- result of `calculate`:\n\n      42\n\n"
        "## Model\n\n**42**, \N{REPLACEMENT CHARACTER}[2J.\n"
    )


def test_empty_session_is_silent_and_broken_fails() -> None:
    assert read_transcript(()).prompts == ()
    assert list(transcript_messages(Messages())) == []
    with pytest.raises(EventError):
        read_transcript([b"{"])


def test_images_are_mentioned() -> None:
    picture = ImageBlock.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
    messages = Messages([Message("user", (TextBlock("This:"), picture))])
    assert [said.text for said in transcript_messages(messages)] == ["you:", "This:", "(image)"]

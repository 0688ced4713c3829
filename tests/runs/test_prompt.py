"""Prompts: valid inputs, and inputs that are refused before the run begins."""

from typing import Any, cast

import pytest

from agent_actors import (
    AgentOptions,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    Prompt,
    TextBlock,
    open_runtime,
)
from agent_actors.errors import ConfigError, MediaError
from agent_actors.protocol.turn import UserInput
from agent_actors.runs.prompt import user_input
from agent_actors.testing import ScriptedModel

IMAGE = ImageBlock("data:image/png;base64,aGk=", "image/png")


def test_text_prompt_is_trimmed() -> None:
    assert user_input(" Hi\n") == UserInput("Hi")


@pytest.mark.parametrize("as_given", [list, tuple])
def test_block_sequence_keeps_its_order(as_given: Any) -> None:
    file, own = FileBlock.from_text("x"), OpaqueBlock({"type": "document"}, "anthropic")
    given = as_given(["One: ", IMAGE, " \n", TextBlock(""), TextBlock("two"), file, own])
    assert user_input(given) == UserInput(
        "One: two", (TextBlock("One: "), IMAGE, TextBlock("two"), file, own)
    )
    assert user_input(as_given([IMAGE])) == UserInput("", (IMAGE,))


@pytest.mark.parametrize("prompt", ["", " \n", [], (), [" "], [TextBlock("\n")]])
def test_a_blank_prompt_is_refused(prompt: Prompt) -> None:
    with pytest.raises(ConfigError, match="the prompt must not be blank"):
        user_input(prompt)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (None, "got a value of type NoneType"),
        (b"Hi", "got a value of type bytes"),
        (IMAGE, "got a value of type ImageBlock"),
        ({"role": "user"}, "got a value of type dict"),
        (["Hi", None], r"prompt\[1\] must be .*; got a value of type NoneType"),
        ([b"\x89PNG"], r"prompt\[0\] must be .*; got a value of type bytes"),
    ],
)
def test_wrong_prompt_type_is_refused(prompt: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        user_input(prompt)


@pytest.mark.parametrize("block", [ImageBlock, FileBlock])
@pytest.mark.parametrize("source", ["cat.png", "data:image/png;base64,a", "", "data:"])
def test_unreadable_source_is_refused_by_position(
    block: type[ImageBlock | FileBlock], source: str
) -> None:
    with pytest.raises(MediaError, match=r"^prompt\[1\]: "):
        user_input(["Look:", block(source)])


async def test_refused_prompt_starts_nothing() -> None:
    model = ScriptedModel(["Hi"])
    options = AgentOptions(model="m", provider=model)
    bad = cast("Prompt", [ImageBlock("cat.png")])
    async with open_runtime() as runtime:
        with pytest.raises(MediaError):
            await runtime.run(bad, options, session_id="s")
        with pytest.raises(MediaError):
            runtime.stream(bad, options, session_id="s")
        assert runtime.history("s") is None
        assert not runtime.is_busy("s")
    assert model.requests == []

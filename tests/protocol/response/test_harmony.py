"""Calls in the Harmony format, with or without control tokens, are read for any split."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    AssistantBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.model import (
    ModelDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from agent_actors.protocol.response.assembler import Assembler
from agent_actors.protocol.response.harmony import HarmonyCalls

ARGUMENTS = '{"q": "A {\\"}"}'
RAW = f"<|channel|>commentary to=functions.find <|constrain|>json<|message|>{ARGUMENTS}<|call|>"
STRIPPED = f"commentary to=functions.find json{ARGUMENTS}"
USED = ToolUseBlock("call_1_0", "find", {"q": 'A {"}'}, ARGUMENTS)


def assembled(deltas: Iterable[ModelDelta]) -> tuple[list[ModelDelta], tuple[AssistantBlock, ...]]:
    assembler = Assembler(text_calls=HarmonyCalls())
    shown: list[ModelDelta] = []
    for delta in deltas:
        shown += assembler.feed(delta)
    shown += assembler.flush()
    return shown, assembler.finish().blocks


def pieces_of(text: str, size: int) -> list[ModelDelta]:
    return [TextDelta(text[at : at + size]) for at in range(0, len(text), size)]


def blocks(text: str) -> tuple[AssistantBlock, ...]:
    """Return the blocks of this text; check that they are the same for pieces of any size."""
    _, whole = assembled([TextDelta(text)])
    for size in (1, 2, 5):
        assert assembled(pieces_of(text, size))[1] == whole
    return whole


@pytest.mark.parametrize(
    "text",
    [
        RAW,
        STRIPPED,
        f"assistant{STRIPPED}",
        f"{STRIPPED}<|call|>",
        f"commentary to=functions.find {ARGUMENTS}",
        f"commentary to=functions.find <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        f"<|start|>assistant{RAW}",
        f"<|start|>assistant to=functions.find<|channel|>commentary json<|message|>{ARGUMENTS}",
        RAW.replace("<|call|>", "<|end|>"),
        RAW.replace("<|constrain|>", ""),
        RAW.replace("functions.", ""),
    ],
)
def test_quirk_25_harmony_call_is_read(text: str) -> None:
    assert blocks(text) == (USED,)


def test_quirk_25_channels_become_thinking_text_calls() -> None:
    text = (
        "<|channel|>analysis<|message|>Need to look.<|end|><|start|>assistant<|channel|>commentary"
        f"<|message|>Let me look.<|end|><|start|>assistant{RAW}"
        f"<|start|>assistant{RAW}<|start|>assistant<|channel|>final<|message|>Done.<|return|>"
    )
    assert blocks(text) == (
        ThinkingBlock("Need to look."),
        TextBlock("Let me look."),
        USED,
        ToolUseBlock("call_1_1", "find", {"q": 'A {"}'}, ARGUMENTS),
        TextBlock("Done."),
    )


def test_tokenless_call_ends_with_its_bracket() -> None:
    nested = '{"a": {"b": [{}, "]}"]}}'
    (call, said) = blocks(f"commentary to=functions.find json{nested}}}!")
    assert isinstance(call, ToolUseBlock)
    assert call.raw_arguments == nested
    assert said == TextBlock("}!")


def test_text_continues_after_tokenless_call() -> None:
    assert blocks(f"Look: {STRIPPED} and {STRIPPED}!") == (
        TextBlock("Look: "),
        USED,
        TextBlock(" and "),
        ToolUseBlock("call_1_1", "find", {"q": 'A {"}'}, ARGUMENTS),
        TextBlock("!"),
    )


@pytest.mark.parametrize(
    "text", [RAW.replace('"q"', "q"), RAW[:-12], STRIPPED[:-1], STRIPPED.replace('"q"', "q")]
)
def test_quirk_25_invalid_arguments_never_run(text: str) -> None:
    (block,) = blocks(text)
    assert isinstance(block, ToolUseError)
    assert block.name == "find"
    assert block.raw_data
    assert block.raw_data in text


@pytest.mark.parametrize(
    "text",
    [
        "commentary to=functions.find and so on",
        "commentary to=functions.find or {not}",
        "commentary to=functions.{",
        "assistantcommentary to=functions.",
        "commentary to=functions" + ".x" * 200 + "{",
        "<|channel|>commentary to=functions.find",
        "<|channel|>" + "x" * 300 + "<|message|>",
        "<|start|>" + "x" * 300,
        "a <|message|> b <|constrain|> c <|other|> d",
        "commentary",
        "<|",
    ],
)
def test_quirk_25_false_marker_is_text(text: str) -> None:
    assert blocks(text) == (TextBlock(text),)


def test_false_header_hides_no_later_call() -> None:
    assert blocks(f"commentary to=functions.x or {STRIPPED}") == (
        TextBlock("commentary to=functions.x or "),
        USED,
    )


def test_bodies_are_shown_as_they_come() -> None:
    calls = HarmonyCalls()
    assert calls.feed("Hi <") == [TextDelta("Hi ")]
    assert calls.settle() == [TextDelta("<")]
    assert calls.feed("<|channel|>analysis<|message|>Hm") == [ThinkingDelta("Hm")]
    assert calls.feed("<|channel|>commentary to=find") == []
    assert calls.settle() == ()
    (begun, piece) = calls.feed('<|message|>{"q":<')
    assert isinstance(begun, ToolCallDelta)
    assert isinstance(piece, ToolCallDelta)
    assert (begun.name, piece.arguments, piece.index) == ("find", '{"q":', begun.index)
    assert calls.flush() == [ToolCallDelta(begun.index, "", "", "<")]
    assert calls.flush() == []


PARTS = st.sampled_from(
    [
        *("Hi", " ", "<|channel|>", "<|start|>", "<|message|>", "<|end|>", "<|call|>", "<"),
        *("commentary to=functions.", "assistant", "find", " json", "{", "}", '"', "\\", "\ud83d"),
        *("analysis", " to=find"),
    ]
)


@given(st.lists(PARTS, max_size=14).map("".join), st.integers(1, 5))
def test_result_is_independent_of_splits(text: str, size: int) -> None:
    shown, whole = assembled([TextDelta(text)])
    shown_in_pieces, in_pieces = assembled(pieces_of(text, size))
    assert in_pieces == whole
    for kind in (TextDelta, ThinkingDelta):
        said = [delta.text for delta in shown if isinstance(delta, kind)]
        in_bits = [delta.text for delta in shown_in_pieces if isinstance(delta, kind)]
        assert "".join(in_bits) == "".join(said)


def test_damage_turns_open_header_into_text() -> None:
    assembler = Assembler(text_calls=HarmonyCalls())
    assembler.feed(TextDelta("<|channel|>commentary to=functions.fi"))
    assembler.damage()
    assembler.feed(TextDelta(f"nd<|message|>{ARGUMENTS}<|call|>"))
    assembler.flush()
    assert all(not isinstance(block, ToolUseBlock) for block in assembler.finish().blocks)

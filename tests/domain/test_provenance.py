import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    AssistantBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.json import JsonObject
from agent_actors.domain.model import ModelCompleted
from agent_actors.domain.provenance import Origin, marked

HERE = Origin("openai", "http://one/v1", "vendor/model-3")
EXTRA: JsonObject = {"own": 1, "citations": [2]}

_words = st.text(max_size=8)


def test_only_echoed_blocks_carry_origin() -> None:
    plain: tuple[AssistantBlock, ...] = (
        TextBlock("a"),
        ThinkingBlock("b"),
        ToolUseBlock("1", "t", {}),
        ToolUseError("no"),
        ImageBlock("data:,", extra=EXTRA),
        OpaqueBlock({"type": "x"}, "openai"),
    )
    answer = ModelCompleted(plain)
    assert marked(answer, HERE) is answer
    echoing = (
        TextBlock("a", extra=EXTRA),
        ThinkingBlock("b", "seal"),
        ThinkingBlock("b", extra=EXTRA),
        ToolUseBlock("1", "t", {}, extra=EXTRA),
        ToolUseError("no", extra=EXTRA),
    )
    found = marked(ModelCompleted((*plain, *echoing)), HERE).blocks
    assert found[: len(plain)] == plain
    assert found[len(plain) :] == tuple(attrs.evolve(one, origin=HERE.mark) for one in echoing)


def test_existing_mark_is_kept() -> None:
    answer = ModelCompleted((ThinkingBlock("b", "seal", origin="anthropic"), TextBlock("a")))
    assert marked(answer, HERE) is answer


def test_failed_call_keeps_its_origin() -> None:
    failed = ToolUseError("no", id="1", name="t", extra=EXTRA, origin=HERE.mark)
    assert failed.as_tool_use().origin == HERE.mark


@pytest.mark.parametrize(
    ("asked", "speaks", "gave"),
    [
        (HERE, True, True),
        (Origin("openai", "http://one/v1", "another"), True, True),
        (Origin("openai", "http://moved/v1", "vendor/model-3"), True, True),
        (Origin("openai", "http://moved/v1", "model-3"), True, True),
        (Origin("openai", "http://two/v1", "another"), True, False),
        (Origin("openai"), True, False),
        (Origin("anthropic", "http://one/v1", "model-3"), False, False),
    ],
)
def test_origin_decides_who_gets_echoes(asked: Origin, speaks: bool, gave: bool) -> None:
    assert (asked.speaks(HERE.mark), asked.gave(HERE.mark)) == (speaks, gave)
    block = TextBlock("a", extra=EXTRA, origin=HERE.mark)
    assert asked.owed(block) == (EXTRA if gave else {})
    shared = {"citations": [2]} if speaks else {}
    assert asked.owed(block, frozenset({"citations"})) == (EXTRA if gave else shared)


@given(_words, _words, _words)
def test_unmarked_block_goes_to_every_endpoint(protocol: str, endpoint: str, model: str) -> None:
    asked = Origin(protocol, endpoint, model)
    assert asked.speaks("")
    assert asked.gave("")
    for block in (TextBlock("a", extra=EXTRA), ToolResultBlock("1", "", extra=EXTRA)):
        assert asked.owed(block) == EXTRA


@given(st.sampled_from(["openai", "anthropic"]), _words.filter(bool), _words)
def test_an_endpoint_knows_its_own_mark(protocol: str, endpoint: str, model: str) -> None:
    asked = Origin(protocol, endpoint, model)
    assert asked.speaks(asked.mark)
    assert asked.gave(asked.mark)


@given(st.text(min_size=1))
def test_foreign_origin_matches_no_other_endpoint(mark: str) -> None:
    origin = Origin.of(mark)
    if origin.protocol != HERE.protocol:
        assert not HERE.speaks(mark)
        assert not HERE.gave(mark)
    assert not Origin("openai").gave(f"openai {mark}")
    assert not HERE.gave("openai")
    assert HERE.speaks("openai")


def test_bound_fields_need_same_endpoint() -> None:
    here = Origin("openai", "http://a b/v1", "vendor/m")
    block = TextBlock("Hi", extra={"own": 1, "other": 2}, origin=here.mark)
    own = frozenset({"own"})
    assert here.owed(block, bound=own) == {"own": 1, "other": 2}
    assert Origin("openai", here.endpoint, "n").owed(block, bound=own) == {"own": 1, "other": 2}
    assert Origin("openai", "http://moved/v1", "m").owed(block, bound=own) == {"other": 2}
    assert Origin("openai", "http://moved/v1", "n").owed(block, bound=own) == {}
    unmarked = TextBlock("Hi", extra={"own": 1})
    assert Origin("openai", "http://moved/v1", "n").owed(unmarked, bound=own) == {"own": 1}
    assert here.is_endpoint_of("")

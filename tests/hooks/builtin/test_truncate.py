"""Tool results are truncated to a size that suits a conversation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError
from agent_actors.hooks.builtin import SELF_BOUNDED, TruncateOutput
from agent_actors.hooks.builtin.truncate import KEEP, LIMIT
from tests.hooks.builtin.helpers import after, context

SHORT = TruncateOutput(limit=20, keep=5)


async def result_after(hook: TruncateOutput, result: JsonValue, name: str = "echo") -> JsonValue:
    decision = await hook.after_tool(after(result, name), context())
    return result if decision is None else decision.modified_output


@pytest.mark.feature("WICK-053", "WICK-054", "WICK-055")
async def test_long_result_keeps_both_ends() -> None:
    hook = TruncateOutput()
    assert (LIMIT, KEEP) == (80_000, 2_000)
    assert await hook.after_tool(after("x" * 80_000), context()) is None
    long = "a" * 2_000 + "b" * 76_001 + "c" * 2_000
    marker = "\n... (truncated 76001 characters) ...\n"
    assert await result_after(hook, long) == "a" * 2_000 + marker + "c" * 2_000


@pytest.mark.feature("WICK-056")
@pytest.mark.parametrize("name", [*SELF_BOUNDED, "Read", "LS", "Grep", "MultiEdit", "write-file"])
async def test_tools_with_own_limit_are_left_alone(name: str) -> None:
    assert await result_after(SHORT, "x" * 100, name) == "x" * 100


@pytest.mark.parametrize("name", ["reader", "bash", "grep2", "mcp__files__read"])
async def test_similar_names_are_not_excluded(name: str) -> None:
    assert await result_after(SHORT, "x" * 100, name) != "x" * 100


async def test_given_names_replace_the_defaults() -> None:
    hook = TruncateOutput(limit=20, keep=5, exclude=["Bash"])
    assert await result_after(hook, "x" * 100, "bash") == "x" * 100
    assert await result_after(hook, "x" * 100, "read") != "x" * 100


async def test_structured_result_keeps_ends_of_json() -> None:
    short: JsonObject = {"rows": [1]}
    assert await result_after(SHORT, short) is short
    marker = "\n... (truncated 50 characters) ...\n"
    text = json.dumps({"rows": ["é" * 46]}, ensure_ascii=False)
    assert await result_after(SHORT, {"rows": ["é" * 46]}) == text[:5] + marker + text[-5:]
    numbers: list[JsonValue] = list(range(30))
    found = await result_after(SHORT, numbers)
    assert isinstance(found, str)
    assert found.startswith("[0, 1\n... (")


async def test_images_stay_and_do_not_count() -> None:
    image: JsonValue = {"type": "image", "source": "data:image/png;base64," + "A" * 100}
    few: list[JsonValue] = [{"type": "text", "text": "short"}, image]
    assert await result_after(SHORT, few) is few
    assert await result_after(SHORT, [image]) == [image]
    many: list[JsonValue] = [
        {"type": "text", "text": "x" * 15},
        image,
        {"type": "text", "text": "y" * 15},
    ]
    cut = "xxxxx\n... (truncated 20 characters) ...\nyyyyy"
    assert await result_after(SHORT, many) == [{"type": "text", "text": cut}, image]


@pytest.mark.parametrize("kind", ["file", "image", "opaque", "text"])
async def test_fake_file_block_is_truncated(kind: str) -> None:
    listed: list[JsonValue] = [{"type": kind, "content": "x" * 90}]
    found = await result_after(SHORT, listed)
    assert isinstance(found, str)
    assert found.startswith('[{"ty\n... (truncated')


@given(st.text(max_size=60), st.integers(0, 10))
def test_nothing_is_lost_but_the_middle(text: str, keep: int) -> None:
    cut = TruncateOutput(limit=20, keep=keep).cut(text)
    if len(text) <= 20:
        assert cut == text
    else:
        assert cut.startswith(text[:keep])
        assert cut.endswith(text[len(text) - keep :])
        assert f"(truncated {len(text) - 2 * keep} characters)" in cut


@pytest.mark.parametrize(("limit", "keep"), [(9, 5), (10, -1)])
def test_contradictory_limits_are_refused(limit: int, keep: int) -> None:
    with pytest.raises(ConfigError, match="at least twice keep"):
        TruncateOutput(limit, keep)

"""Blocks, JSON copies, usage, ids, runs and specs: the small values."""

import json
from collections.abc import Iterator
from itertools import repeat
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_actors.domain.blocks import (
    INVALID_CALL_NAME,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.ids import Uuid7Ids
from agent_actors.domain.json import (
    JsonObject,
    JsonValue,
    copy_json,
    copy_object,
    is_deeper,
    nests_deeper,
    same_json,
)
from agent_actors.domain.messages import Messages
from agent_actors.domain.model import ModelCompleted, ModelSettings, ToolSpec
from agent_actors.domain.run import CancelReason, RunInfo, RunResult, StopReason
from agent_actors.domain.usage import Usage

# --- blocks ---------------------------------------------------------------------------------------

# Texts with brackets, quotes and backslashes, which do not count as levels.
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ü', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"', max_size=3), inner),
    max_leaves=12,
)


@pytest.mark.feature("OAS-013")
def test_a_text_block_has_text_and_type() -> None:
    assert (TextBlock("hi").text, TextBlock("hi").type) == ("hi", "text")


@pytest.mark.feature("OAS-014")
def test_tool_use_has_id_name_and_input() -> None:
    call = ToolUseBlock("c1", "weather", {"city": "Paris"})
    assert (call.id, call.name, call.input) == ("c1", "weather", {"city": "Paris"})
    assert call.type == "tool_use"


@pytest.mark.feature("WICK-005")
def test_tool_use_keeps_raw_arguments() -> None:
    assert ToolUseBlock("c1", "t", {"a": 1}, '{"a":1}').arguments_text == '{"a":1}'
    assert ToolUseBlock("c1", "t", {"a": "ü"}).arguments_text == '{"a": "ü"}'


@pytest.mark.feature("OAS-015")
def test_tool_use_error_keeps_raw_data() -> None:
    bad = ToolUseError("arguments are no JSON", '{"a": ', "c1", "t")
    assert (bad.error, bad.raw_data, bad.type) == (
        "arguments are no JSON",
        '{"a": ',
        "tool_use_error",
    )
    assert ToolUseError("cut short").raw_data is None


def test_history_gives_error_call_empty_arguments() -> None:
    extra: JsonObject = {"seal": 1}
    assert ToolUseError("no", "{", "c1", "t", extra=extra).as_tool_use() == ToolUseBlock(
        "c1", "t", {}, extra=extra
    )
    assert ToolUseError("no", id="c1").as_tool_use().name == INVALID_CALL_NAME


@pytest.mark.feature("OAS-016", "WICK-006")
def test_tool_result_has_all_fields() -> None:
    result = ToolResultBlock("c1", "sunny", name="weather")
    assert (result.tool_use_id, result.content, result.is_error) == ("c1", "sunny", False)
    assert (result.name, result.type, result.text) == ("weather", "tool_result", "sunny")
    assert ToolResultBlock("c1", {"n": [1]}, True).text == '{"n": [1]}'
    assert ToolResultBlock("c1", ["ü"]).text == '["ü"]'


@pytest.mark.feature("OAS-018")
def test_thinking_has_a_block_of_its_own() -> None:
    block = ThinkingBlock("hm", "seal")
    assert (block.thinking, block.signature, block.type) == ("hm", "seal", "thinking")


def test_blocks_are_frozen_values() -> None:
    assert ImageBlock("data:,") == ImageBlock("data:,", "", extra={})
    for block in (TextBlock("a"), ToolUseBlock("c", "n", {}), ImageBlock("data:,")):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            block.extra = {}  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue]


# --- JSON -----------------------------------------------------------------------------------------


def test_json_copy_shares_nothing_mutable() -> None:
    value: dict[str, Any] = {"list": [1, {"a": []}], "tuple": ([2],), "text": "x"}
    copied: Any = copy_object(value)
    assert copied == value
    copied["list"][1]["a"].append(3)
    copied["tuple"][0].append(3)
    assert value == {"list": [1, {"a": []}], "tuple": ([2],), "text": "x"}
    assert copy_json(None) is None


@given(JSON, st.integers(0, 6))
def test_depth_of_text_is_depth_of_value(value: JsonValue, levels: int) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        assert nests_deeper(text, levels) is is_deeper(value, levels)
        assert nests_deeper(text.encode(), levels) is is_deeper(value, levels)


@pytest.mark.parametrize(
    "text", ["[" * 9, '{"a":' * 9, "[]" * 9 + "[[[[", '"\\"[[[["[[[[', "]]]][[[[["]
)
def test_depth_of_broken_text_is_bounded(text: str) -> None:
    """Brackets outside of strings count, in text that is not JSON as well."""
    assert nests_deeper(text, 0)
    assert not nests_deeper(text, 9)
    assert not nests_deeper('"' + text.replace('"', ""), 0)


def test_json_depth_is_bounded() -> None:
    assert not is_deeper("text", 0)
    assert is_deeper({}, 0)
    assert is_deeper([], 0)
    assert not is_deeper({"a": 1, "b": [2]}, 2)
    assert is_deeper({"a": 1, "b": [([],)]}, 3)
    assert not is_deeper({"a": 1, "b": [([],)]}, 4)


SCALARS = [None, True, False, 0, 1, 0.0, 1.0, -0.0, float("nan"), "", "1"]


@pytest.mark.parametrize("one", SCALARS)
@pytest.mark.parametrize("other", SCALARS)
def test_only_identical_scalars_are_same_json(one: Any, other: Any) -> None:
    same = one is other
    assert same_json(one, other) is same
    assert same_json({"a": [one]}, {"a": (other,)}) is same


@pytest.mark.parametrize("other", [{}, {"a": 1}, {"a": [1, 2]}, {"b": [1]}, [1], "a", None])
def test_different_shapes_are_not_same_json(other: Any) -> None:
    assert not same_json({"a": [1]}, other)
    assert not same_json(other, {"a": [1]})
    assert same_json(other, copy_json(other))


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.feature("ASDK-016")
def test_usage_sum_includes_cache_tokens() -> None:
    total = Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50, estimated=True)
    assert total == Usage(11, 22, 33, 44, 55, estimated=True)
    assert total.total_tokens == 33
    assert Usage() + Usage(1) == Usage(1)


# --- ids ------------------------------------------------------------------------------------------


def ids_at(times: Iterator[float], bits: int = 0) -> Uuid7Ids:
    return Uuid7Ids(lambda: next(times), lambda count: bits & ((1 << count) - 1))


def test_id_is_a_timed_uuid7() -> None:
    made = UUID(ids_at(iter([1_700_000_000.123]), -1).new())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 1_700_000_000_123


@given(
    st.lists(st.floats(0, 4_000_000_000, allow_nan=False), min_size=2, max_size=30),
    st.integers(0, (1 << 48) - 1),
)
def test_ids_grow_despite_clock_changes(times: list[float], bits: int) -> None:
    ids = ids_at(iter(times), bits)
    made = [ids.new() for _ in times]
    assert made == sorted(set(made))
    assert all(UUID(text).version == 7 for text in made)


@given(
    st.lists(st.floats(0, 4_000_000_000, allow_nan=False), min_size=2, max_size=10),
    st.lists(st.integers(1, 5), min_size=2, max_size=10),
)
def test_batched_ids_are_increasing(times: list[float], counts: list[int]) -> None:
    ids = ids_at(iter(times))
    taken = [ids.take(count) for count, _ in zip(counts, times, strict=False)]
    made = [text for several in taken for text in several]
    assert [len(several) for several in taken] == counts[: len(taken)]
    assert made == sorted(set(made))
    assert all(UUID(text).version == 7 for text in made)


def test_ids_are_seeded_once() -> None:
    seeds = iter([1 << 26])
    ids = Uuid7Ids(iter([1.0, 1.0, 2.5, 4.0]).__next__, lambda _: next(seeds))
    made = [ids.new(), ids.new(), *ids.take(2), ids.new()]
    assert [UUID(text).int >> 80 for text in made] == [1000, 1000, 2500, 2500, 4000]
    assert [UUID(text).int & 0xFFFF for text in made] == [2, 3, 4, 5, 6]


@given(st.integers(0, (1 << 47) - 1), st.lists(st.integers(0, 600), max_size=4))
def test_batched_ids_equal_single_ids(seed: int, counts: list[int]) -> None:
    together, single = (ids_at(repeat(1.0), seed << 26) for _ in range(2))
    taken = [one for count in counts for one in together.take(count)]
    assert taken == [single.new() for _ in range(sum(counts))]


# --- runs and models ------------------------------------------------------------------------------


def test_response_text_joins_its_text_blocks() -> None:
    blocks = (TextBlock("a"), ThinkingBlock("x"), ToolUseBlock("c", "n", {}), TextBlock("b"))
    assert ModelCompleted(blocks).text == "ab"


@pytest.mark.feature("WICK-082", "ASDK-015")
def test_zero_temperature_is_not_unset() -> None:
    assert ModelSettings("m").temperature is None
    assert ModelSettings("m", temperature=0.0) != ModelSettings("m")


def test_reasons_are_the_texts_that_readers_see() -> None:
    assert (StopReason.COMPLETED, StopReason.INTERRUPTED) == ("completed", "interrupted")
    assert [str(reason) for reason in CancelReason][:2] == ["caller", "reader_left"]


@pytest.mark.feature("ASDK-074")
def test_result_has_output_and_usage() -> None:
    result = RunResult("hi", "completed", Messages(), (), Usage(1), 1, 0.5, "s", "r", "q")
    assert (result.output, result.stop_reason, result.usage) == ("hi", "completed", Usage(1))
    assert result.tool_calls == ()


def test_run_info_exposes_iteration_and_output() -> None:
    info = RunInfo("s", "r", "q", 2, 1.5, last_output="so far")
    assert (info.iteration, info.started_at, info.last_output) == (2, 1.5, "so far")


def test_a_tool_spec_may_have_no_schema() -> None:
    assert ToolSpec("t", "d").input_schema is None

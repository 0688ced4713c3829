"""Only valid token counts from an endpoint are used."""

import math

import pytest

from agent_actors.domain.blocks import TextBlock
from agent_actors.providers.token_counts import MOST, count_in, has_count
from tests.providers.anthropic import answers as messages
from tests.providers.openai_chat.answers import read, sse, text

NO_COUNTS: list[object] = [
    *(-1, -0.5, math.inf, -math.inf, math.nan, MOST + 1, 10**400, 1e300),
    *(True, "7", None, {}),
]
ODD = ["1e400", "Infinity", "NaN", "-3", "1" + "0" * 40, "1e300"]


@pytest.mark.parametrize("value", NO_COUNTS)
def test_invalid_count_is_treated_as_missing(value: object) -> None:
    assert count_in({"a": value, "b": 3}, "a", "b") == 3
    assert not has_count({"a": value}, "a", "b")


@pytest.mark.parametrize(("value", "count"), [(0, 0), (0.0, 0), (7, 7), (7.9, 7), (MOST, MOST)])
def test_count_under_first_nonzero_name_wins(value: object, count: int) -> None:
    assert has_count({"a": value}, "a")
    assert count_in({"a": value}, "a") == count
    assert count_in({"a": value, "b": 3}, "a", "b") == (count or 3)


@pytest.mark.parametrize("value", ODD)
def test_absurd_count_is_ignored(value: str) -> None:
    counts = f'"usage":{{"prompt_tokens":{value},"completion_tokens":3}}'
    body = sse(text("Hello", "stop"), done=False) + f'data: {{"choices":[],{counts}}}\n\n'.encode()
    answer = read(body)
    assert answer.blocks == (TextBlock("Hello"),)
    assert (answer.usage.output_tokens, answer.usage.estimated) == (3, True)
    assert 0 < answer.usage.input_tokens < 100


@pytest.mark.parametrize("value", ODD)
def test_nor_does_one_in_anthropics_protocol(value: str) -> None:
    body = messages.sse(*messages.text_block("Hello"), *messages.end(cache_read_input_tokens=-17))
    answer = messages.read(body.replace(b"-17", value.encode()))
    assert answer.blocks == (TextBlock("Hello"),)
    assert (answer.usage.output_tokens, answer.usage.cache_read_tokens) == (4, 0)

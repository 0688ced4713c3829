"""Recognize requests that are longer than the context window, as endpoints report them."""

import pytest

from agent_actors.errors import (
    ProviderConnectError,
    ProviderError,
    ProviderInBandError,
    ProviderStatusError,
)
from agent_actors.protocol.overflow import is_context_overflow


def status(code: int, message: str) -> ProviderStatusError:
    return ProviderStatusError(endpoint="e", status=code, body_message=message, headers={})


@pytest.mark.parametrize(
    "error",
    [
        status(400, "This model's maximum context length is 8192 tokens. However, you requested"),
        status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        status(400, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"),
        status(400, "the request exceeds the available context size, try increasing it"),
        status(400, "The input token count (1100000) exceeds the maximum number of tokens"),
        status(413, "Please reduce the length of the messages or completion."),
        status(500, "the number of tokens to keep is greater than the context length"),
        ProviderInBandError("too long", endpoint="e", code="context_length_exceeded"),
        ProviderInBandError("maximum context length is 4096", endpoint="e"),
    ],
)
def test_known_overflow_is_recognized(error: ProviderError) -> None:
    assert is_context_overflow(error)


@pytest.mark.parametrize(
    "error",
    [
        status(429, "prompt is too long for your rate limit"),
        status(400, "temperature must be at most 1"),
        ProviderConnectError("maximum context length", endpoint="e"),
    ],
)
def test_other_failure_is_no_overflow(error: ProviderError) -> None:
    assert not is_context_overflow(error)


def test_profile_adds_overflow_texts() -> None:
    error = status(400, "Kontext zu lang")
    assert not is_context_overflow(error)
    assert is_context_overflow(error, ["kontext zu lang"])

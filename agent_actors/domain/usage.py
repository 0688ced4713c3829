"""Tokens: what a model call, a run or a session used."""

from typing import Final

import attrs


@attrs.frozen
class Usage:
    """Token counts. Adding two gives their sum.

    Attributes:
        input_tokens: Tokens of the prompt, cached ones included.
        output_tokens: Tokens of the answer, reasoning included.
        cache_read_tokens: Those of the input that came from a cache.
        cache_creation_tokens: Those of the input that were written to a cache.
        reasoning_tokens: Those of the output that the model spent on reasoning.
        estimated: True if any part was estimated because the endpoint gave none.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
        )


NO_TOKENS: Final = Usage()

_CHARACTERS_PER_TOKEN: Final = 4  # of English prose, in the tokenisers of current models


def estimate_tokens(characters: int) -> int:
    """Return a rough number of tokens for a text of this length."""
    return characters // _CHARACTERS_PER_TOKEN

"""Token counts for a model call, a run or a session."""

from typing import Final

import attrs


@attrs.frozen
class Usage:
    """Token counts. Adding two values returns their sum.

    Attributes:
        input_tokens: Tokens in the prompt, including cached tokens.
        output_tokens: Tokens in the response, including reasoning.
        cache_read_tokens: Input tokens that were read from a cache.
        cache_creation_tokens: Input tokens that were written to a cache.
        reasoning_tokens: Output tokens that the model spent on reasoning.
        estimated: True if a count was estimated because the endpoint sent none.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
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

_CHARACTERS_PER_TOKEN: Final = 4  # for English prose, with the tokenizers of current models


def estimate_tokens(characters: int) -> int:
    """Return a rough token count for a text with this many characters."""
    return characters // _CHARACTERS_PER_TOKEN

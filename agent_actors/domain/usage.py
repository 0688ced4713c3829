"""Token counts for a model call, a run or a session."""

from collections.abc import Callable
from typing import Final, TypeAlias

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


@attrs.frozen
class TokenStats:
    """The tokens of one model call.

    A failed or cancelled attempt that had streamed a part of its response is counted separately,
    with estimated tokens.

    Attributes:
        session_id: The session.
        run_id: The run.
        provider_name: The name of the provider profile, or the class of a custom provider.
        model: The model that was requested.
        usage: The token counts.
        cost: The cost of the tokens; None without prices.
    """

    session_id: str
    run_id: str
    provider_name: str
    model: str
    usage: Usage
    cost: float | None = None

    @property
    def input_tokens(self) -> int:
        """Tokens in the prompt, including cached tokens."""
        return self.usage.input_tokens

    @property
    def output_tokens(self) -> int:
        """Tokens in the response, including reasoning."""
        return self.usage.output_tokens

    @property
    def cache_read_tokens(self) -> int:
        """Input tokens that were read from a cache."""
        return self.usage.cache_read_tokens

    @property
    def cache_creation_tokens(self) -> int:
        """Input tokens that were written to a cache."""
        return self.usage.cache_creation_tokens

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.usage.total_tokens


TokenCallback: TypeAlias = Callable[[TokenStats], object]

_CHARACTERS_PER_TOKEN: Final = 4  # for English prose, with the tokenizers of current models


def estimate_tokens(characters: int) -> int:
    """Return a rough token count for a text with this many characters."""
    return characters // _CHARACTERS_PER_TOKEN

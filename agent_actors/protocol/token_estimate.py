"""Estimate the number of tokens of messages, with any function that counts the tokens of a text.

This module defines which parts of a message a model reads as text. For everything else it adds a
fixed amount: a few tokens per message, a round number per image. It contains no tokeniser: a
`TokenCounter` is any function from a text to a number. Two estimates need no counter.
`naive_tokens` deliberately overestimates, for budgets. `rough_tokens` uses the common rule of four
characters per token, for a first estimate.
"""

import json
import re
from collections.abc import Iterable
from typing import Final, Protocol, assert_never

from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    ToolUseError,
)
from agent_actors.domain.messages import TOKENS_PER_IMAGE, Message
from agent_actors.domain.usage import estimate_tokens
from agent_actors.errors import ConfigError

MESSAGE_TOKENS: Final = 4
"""The tokens per message in addition to its text, for its role and delimiters: OpenAI's own figure.
"""


# Tokenisers have tokens for frequent parts of words. At three letters per token, the estimate for
# prose exceeds the count of every known tokeniser. Some tokenisers have one token per digit, so
# each digit counts.
_LETTERS_PER_TOKEN: Final = 3
_SPACES_PER_TOKEN: Final = 2
# A single space before a word or punctuation mark belongs to it. A space before a digit, or in a
# run of spaces, does not.
_RUN: Final = re.compile(
    r"(?P<letters>[A-Za-z]+)|(?P<free> (?=[!-/:-~]))|(?P<spaces>\s+)|(?P<near>[\x80-\u07ff])"
    r"|(?P<far>[\u0800-\uffff])|(?P<astral>[\U00010000-\U0010ffff])|(?P<mark>.)",
    re.DOTALL,
)
# The tokens per character beyond ASCII, by its length in UTF-8: two, three and four bytes. A
# tokeniser without a token for the character falls back to bytes and uses at most one token per
# byte.
_OF_CHARACTER: Final = {"near": 1, "far": 2, "astral": 4, "mark": 1, "free": 0}


class TokenCounter(Protocol):
    """A function that counts the tokens of a text, for example `len(tokenizer.encode(text))`.

    It is called for each text of a message, possibly repeatedly with the same text. It must return
    an int of at least 0, and must accept any text, including the empty text.
    """

    def __call__(self, text: str, /) -> int:
        """Return the number of tokens of a text."""
        ...


def naive_tokens(text: str) -> int:
    """Estimate the number of tokens without a tokeniser; the result is usually too high.

    For prose, code and JSON in any script, the estimate exceeds the count of current models'
    tokenisers, for English by about one half. Random letters (base64, keys) may take more tokens
    than estimated.
    """
    total = 0
    for match in _RUN.finditer(text):
        kind = match.lastgroup or ""
        length = match.end() - match.start()
        if kind == "letters":
            total += -(-length // _LETTERS_PER_TOKEN)
        elif kind == "spaces":
            total += -(-length // _SPACES_PER_TOKEN)
        else:
            total += _OF_CHARACTER[kind]
    return total


def rough_tokens(messages: Iterable[Message]) -> int:
    """Estimate the tokens of all messages as a quarter of their characters, plus their images.

    The rule does not consider scripts and code, for which the estimate may be too low by half.
    Images count as in `message_tokens`.
    """
    characters = media = 0
    for message in messages:
        for block in message.blocks:
            characters += sum(map(len, _texts(block)))
            media += _media_tokens(block)
    return estimate_tokens(characters) + media


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """Return the number of tokens of a message, including its role and delimiters.

    Raises:
        ConfigError: The counter did not return an int of at least 0.
    """
    total = MESSAGE_TOKENS
    for block in message.blocks:
        total += _media_tokens(block)
        for text in _texts(block):
            total += _checked(counter(text))
    return total


def _checked(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ConfigError(f"a token counter must return an int of at least 0; got {count!r:.80}")
    return count


def _texts(block: ContentBlock) -> list[str]:
    """Return the parts of a block that a model reads as text."""
    match block:
        case TextBlock():
            return [block.text]
        case ThinkingBlock():
            # Only thinking that an endpoint wants back is sent again. The next endpoint is not
            # known here, so thinking that it would not receive is counted as well.
            return [block.thinking] if block.signature or block.extra else []
        case ToolUseBlock():
            return [block.name, block.arguments_text]
        case ToolUseError():
            called = block.as_tool_use()
            return [called.name, called.arguments_text]
        case ToolResultBlock():
            return [block.text]
        case FileBlock():
            return list(filter(None, [block.name, block.text]))
        case OpaqueBlock():
            return [json.dumps(block.data, ensure_ascii=False, default=str)]
        case ImageBlock():
            return []
        case _:
            assert_never(block)


def _media_tokens(block: ContentBlock) -> int:
    match block:
        case ImageBlock():
            return TOKENS_PER_IMAGE
        case FileBlock():
            return TOKENS_PER_IMAGE if block.text is None else 0
        case ToolResultBlock(content=list() as parts):
            shown = [part for part in parts if isinstance(part, dict)]
            return TOKENS_PER_IMAGE * sum(part.get("type") in {"image", "file"} for part in shown)
        case _:
            return 0

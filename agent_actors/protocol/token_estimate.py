"""How many tokens messages take, by whatever counts the tokens of a text.

Owns what of a message a model reads, and what is added for the rest: a few tokens a message, a
round number an image. Knows no tokeniser: a `TokenCounter` is any function from a text to a number.
Two need none. `naive_tokens` errs on the high side, for budgets; `rough_tokens` is the common rule
of four characters a token, for a first look.
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
"""Tokens a message beside its text, for its role and the marks around it: OpenAI's own figure."""


# Letters are in words of which tokenisers know the frequent pieces; three letters a token is more
# tokens than any of them needs for prose. Some have a token for each digit, so each counts.
_LETTERS_PER_TOKEN: Final = 3
_SPACES_PER_TOKEN: Final = 2
# A space before a word or a mark is part of it; before a digit, and in runs, it is not.
_RUN: Final = re.compile(
    r"(?P<letters>[A-Za-z]+)|(?P<free> (?=[!-/:-~]))|(?P<spaces>\s+)|(?P<near>[\x80-\u07ff])"
    r"|(?P<far>[\u0800-\uffff])|(?P<astral>[\U00010000-\U0010ffff])|(?P<mark>.)",
    re.DOTALL,
)
# Tokens of one character beyond ASCII, by the bytes of its UTF-8: two, three and four. Tokenisers
# that have none for it fall back to bytes, and spend at most one on each.
_OF_CHARACTER: Final = {"near": 1, "far": 2, "astral": 4, "mark": 1, "free": 0}


class TokenCounter(Protocol):
    """Counts the tokens of a text: `len(tokenizer.encode(text))`, as a function.

    It is called with each text of a message, and may be asked for the same one again. It is to
    return a whole number, not below 0, and must take any text, the empty one too.
    """

    def __call__(self, text: str, /) -> int:
        """How many tokens this text has."""
        ...


def naive_tokens(text: str) -> int:
    """A count that needs no tokeniser and errs on the high side.

    For prose, code and JSON in any script it is above what tokenisers of current models count,
    about one and a half times that for English. Random letters (base64, keys) may take more.
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
    """The characters of all messages, divided by four; images count as they do everywhere.

    It knows neither scripts nor code: for those it may be too low by half.
    """
    characters = media = 0
    for message in messages:
        for block in message.blocks:
            characters += sum(map(len, _texts(block)))
            media += _media_tokens(block)
    return estimate_tokens(characters) + media


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """How many tokens a message takes, what stands around its text included.

    Raises:
        ConfigError: The counter gives no whole number, or one below 0.
    """
    total = MESSAGE_TOKENS
    for block in message.blocks:
        total += _media_tokens(block)
        for text in _texts(block):
            total += _checked(counter(text))
    return total


def _checked(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ConfigError(
            f"a token counter must return a whole number, 0 at least; got {count!r:.80}"
        )
    return count


def _texts(block: ContentBlock) -> list[str]:
    """What a model reads of a block as text."""
    match block:
        case TextBlock():
            return [block.text]
        case ThinkingBlock():
            # Only thoughts that an endpoint wants back are sent again; which one will be asked is
            # not known here, so those that it would not get count too.
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

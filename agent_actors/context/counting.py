"""Estimates of the number of tokens in a conversation.

This module selects the counter: one that the caller passes, tiktoken if it is available without
network access, or a rule of thumb. `protocol/token_estimate.py` defines which parts of a message
are counted.
"""

from collections.abc import Iterable

from agent_actors.context.message_formats import AnyMessage, as_messages
from agent_actors.context.tiktoken_encodings import tiktoken_counter
from agent_actors.protocol.token_estimate import TokenCounter, message_tokens, rough_tokens


def estimate_tokens(
    messages: Iterable[AnyMessage],
    model: str = "gpt-3.5-turbo",
    *,
    counter: TokenCounter | None = None,
) -> int:
    """Estimate the number of tokens that these messages have in a request.

    With tiktoken (the extra `tokens`) and its data on this disk, the estimate is the number of
    tokens in the text that a model reads, plus 4 per message. Otherwise it is the number of
    characters divided by 4. Nothing is ever downloaded. An image, or a file that is not text,
    counts as 1,000 tokens. Tool schemas and the system prompt in the options are not messages and
    are not counted.

    For each model family, the following table shows the accuracy for English prose, and the share
    of the context to leave free. The figures are rounded values reported by users of the models.

    | family | by tiktoken | by characters | leave free |
    |---|---|---|---|
    | OpenAI's GPT | near | 10 to 25 % off | 10 % |
    | Llama 3, Qwen, DeepSeek, later Mistral | 10 to 15 % off | 10 to 25 % off | 20 % |
    | Claude, Gemini, older Llama | 15 to 25 % off | 20 to 30 % off | 30 % |

    Code and JSON have about a third more tokens than the estimate by characters. Chinese, Japanese
    and Korean text has up to four times as many, so use `naive_tokens` for it.

    Args:
        messages: `Messages`, a list of `Message`, or OpenAI's dicts.
        model: The model's name, which selects tiktoken's encoding.
        counter: A function that counts the tokens instead, for example the model's own tokenizer,
            or `naive_tokens`.

    Raises:
        MessageError: An item is not a message. The error names its position.
        ConfigError: The counter does not return an integer of at least 0.
    """
    read = as_messages(messages)
    counts = tiktoken_counter(model) if counter is None else counter
    if counts is None:
        return rough_tokens(read)
    return sum(message_tokens(message, counts) for message in read)

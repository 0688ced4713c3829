"""How many tokens a conversation takes, near enough to plan by.

Owns the choice of what counts: a counter that is handed in, tiktoken where it can be had without
the network, else the rule of thumb. What of a message is counted stands in
`protocol/token_estimate.py`.
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
    """About how many tokens these messages take in a request.

    With tiktoken (the extra `tokens`) and its data on this disk: the tokens of what a model reads,
    and 4 a message. Else: the characters, divided by 4. Nothing is ever downloaded. An image, and a
    file that is no text, counts as 1,000. Tools' schemas and the options' system prompt are no
    messages, and are not counted.

    How near it comes for English prose, and how much to leave free, by the model's family; these
    are round figures, as users of the models report them:

    | family | by tiktoken | by characters | leave free |
    |---|---|---|---|
    | OpenAI's GPT | near | 10 to 25 % off | 10 % |
    | Llama 3, Qwen, DeepSeek, later Mistral | 10 to 15 % off | 10 to 25 % off | 20 % |
    | Claude, Gemini, older Llama | 15 to 25 % off | 20 to 30 % off | 30 % |

    Code and JSON take about a third more tokens than their characters tell, Chinese, Japanese and
    Korean up to four times as many: use `naive_tokens` there.

    Args:
        messages: `Messages`, a list of `Message`, or OpenAI's dicts.
        model: The model's name, which chooses tiktoken's encoding.
        counter: What counts instead, such as the model's own tokeniser, or `naive_tokens`.

    Raises:
        MessageError: One is no message; names its position.
        ConfigError: The counter gives no whole number, or one below 0.
    """
    read = as_messages(messages)
    counts = tiktoken_counter(model) if counter is None else counter
    if counts is None:
        return rough_tokens(read)
    return sum(message_tokens(message, counts) for message in read)

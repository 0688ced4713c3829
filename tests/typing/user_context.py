"""A user's code with contexts and options, for the type checkers only: no cast, no ignore."""

from typing import assert_type

import attrs

from agent_actors import AgentOptions, Client, Message, Messages, tool
from agent_actors.context import (
    TokenCounter,
    Trimmer,
    estimate_tokens,
    naive_tokens,
    tiktoken_counter,
    truncate_messages,
)


@attrs.frozen
class City:
    name: str


@tool
async def lookup(name: str) -> str:
    """Looks up."""
    return name


def by_words(text: str) -> int:
    return len(text.split())


class Tokenizer:
    def __call__(self, text: str, /) -> int:
        return len(text)


counters: list[TokenCounter] = [by_words, naive_tokens, Tokenizer(), len]
assert_type(tiktoken_counter("gpt-4o"), TokenCounter | None)

ours = Messages().user("Hello")
dicts: list[dict[str, str]] = [{"role": "user", "content": "Hello"}]

# The result has the same type as the argument.
assert_type(truncate_messages(ours), Messages)
assert_type(truncate_messages(ours, 5, preserve_system=False), Messages)
assert_type(truncate_messages(list(ours), keep=5), list[Message])
assert_type(truncate_messages(dicts), list[dict[str, str]])
assert_type(Trimmer(100).trim(ours), Messages)
assert_type(Trimmer(100, by_words, preserve_system=True).trim(dicts), list[dict[str, str]])
assert_type(estimate_tokens(dicts, model="gpt-4o"), int)
assert_type(estimate_tokens(ours, counter=by_words), int)


async def shorten(client: Client) -> None:
    client.message_history = truncate_messages(client.history, keep=2)
    client.message_history = Trimmer(1000).trim(client.history)


options = AgentOptions(model="m", base_url="http://localhost:1234/v1")
assert_type(AgentOptions.from_env(), AgentOptions)
assert_type(AgentOptions.from_env(tools=[lookup], temperature=0), AgentOptions)
assert_type(AgentOptions.from_env(output_type=City), AgentOptions[City])
assert_type(AgentOptions.from_file("agent.yaml", stop="END"), AgentOptions)
assert_type(AgentOptions.from_file("agent.yaml", output_type=list[City]), AgentOptions[list[City]])
assert_type(options.evolve(tools=[lookup], permissions="plan"), AgentOptions)
assert_type(options.evolve(output_type=City), AgentOptions[City])
# Other changes do not affect the type of the output.
assert_type(options.evolve(output_type=City).evolve(temperature=0.1), AgentOptions[City])

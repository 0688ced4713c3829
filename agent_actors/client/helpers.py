"""Small functions that have the same names as in open-agent-sdk."""

from agent_actors.client.client import Client, DepsT
from agent_actors.codec.openai_messages import MessageDict, messages_to_openai
from agent_actors.domain.messages import user
from agent_actors.options.agent_options import AgentOptions
from agent_actors.runtime.runtime import Runtime


def create_client(
    options: AgentOptions[object, DepsT],
    *,
    runtime: Runtime | None = None,
    deps: DepsT | None = None,
) -> Client:
    """Return a client for one conversation; the same as `Client(...)`.

    Args:
        options: The agent.
        runtime: The runtime to use; None: a new one, which closes with the client.
        deps: The dependencies for `ctx.deps`; see `Client`.

    Raises:
        ConfigError: The options are not valid.
    """
    return Client(options, runtime=runtime, deps=deps)


def format_messages(system_prompt: str, prompt: str) -> list[MessageDict]:
    """Return the messages of a one-prompt conversation, in OpenAI's wire format.

    Args:
        system_prompt: The system prompt; empty: no system message.
        prompt: The user's input.
    """
    return messages_to_openai([user(prompt)], system_prompt)

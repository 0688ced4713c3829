"""`SummarizationHook`: turns on the summaries of long conversations, in the form of a hook.

The hook itself holds only the settings. The run makes the summaries, exactly as with the option
`AgentOptions.compaction`, because only a run can record them.
"""

from agent_actors.errors import ConfigError
from agent_actors.hooks.hook import Hook
from agent_actors.protocol.compaction import DEFAULT_CONTEXT_WINDOW


class SummarizationHook(Hook):
    """Replaces older messages by a summary when a conversation fills 85 % of the context window.

    `AgentOptions.compaction` has more settings, and takes precedence over this hook.

    Args:
        model: The model at the same endpoint that writes summaries; None: the agent's model.
        context_window: The size of the model's context window, in tokens.

    Raises:
        ConfigError: `context_window` is not an integer of at least 1.
    """

    name = "summarization"

    def __init__(
        self, model: str | None = None, context_window: int = DEFAULT_CONTEXT_WINDOW
    ) -> None:
        window: object = context_window
        if type(window) is not int or window < 1:
            raise ConfigError(
                "SummarizationHook: context_window must be an integer of at least 1; got "
                f"{window!r:.80}"
            )
        self.model: str | None = model
        self.context_window: int = context_window

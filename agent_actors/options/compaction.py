"""The option `AgentOptions.compaction`: when and how a long conversation is made shorter."""

from collections.abc import Callable, Mapping
from typing import cast

import attrs

from agent_actors.errors import ConfigError
from agent_actors.options.validation import nearest
from agent_actors.protocol.compaction import (
    DEFAULT_CONTEXT_WINDOW,
    Planner,
    summarize_old_messages,
)


@attrs.frozen(kw_only=True)
class Compaction:
    """When a conversation is made shorter, and what stays.

    Attributes:
        threshold: The share of the context window above which a compaction is due.
        tokens: The size of a request above which a compaction is due, in tokens; None: `threshold`
            applies.
        context_window: The size of the model's context window, in tokens; None: the size in the
            provider's profile, or 128,000.
        keep: The share of the newest messages that stay, from 0 to 1.
        keep_min: The minimum number of messages that stay.
        model: The model at the same endpoint that writes summaries; None: the agent's model.
        max_summary_words: The maximum length of a summary.
        clear_results_after: The number of newest responses whose tool results stay. When a
            compaction is due, older results are cleared first, and the older messages are replaced
            only if that is not enough. None: results are not cleared.
        instructions: Further instructions for the summary.
        plan: The strategy: `summarize_old_messages`, `sliding_window()` or a function of yours.

    Raises:
        ConfigError: A field is not valid.
    """

    threshold: float = 0.85
    tokens: int | None = None
    context_window: int | None = None
    keep: float = 0.10
    keep_min: int = 2
    model: str | None = None
    max_summary_words: int = 2000
    clear_results_after: int | None = None
    instructions: str = ""
    plan: Planner = summarize_old_messages

    def __attrs_post_init__(self) -> None:
        for name in ("threshold", "keep"):
            share: object = getattr(self, name)
            lowest_ok = isinstance(share, int | float) and (share > 0 or name == "keep")
            if isinstance(share, bool) or not (lowest_ok and 0 <= cast(float, share) <= 1):
                raise ConfigError(f"Compaction: {name} must be from 0 to 1; got {share!r:.80}")
        for name in ("tokens", "context_window", "clear_results_after"):
            if getattr(self, name) is not None:
                self._check_count(name)
        self._check_count("keep_min")
        self._check_count("max_summary_words")
        model: object = self.model
        named = isinstance(model, str) and bool(model.strip())
        if model is not None and not named:
            raise ConfigError(f"Compaction: model must be the name of a model; got {model!r:.80}")
        if not isinstance(cast(object, self.instructions), str):
            raise ConfigError(
                f"Compaction: instructions must be text; got {self.instructions!r:.80}"
            )
        if not callable(self.plan):
            raise ConfigError(f"Compaction: plan must be a function; got {self.plan!r:.80}")

    def _check_count(self, name: str) -> None:
        value: object = getattr(self, name)
        if type(value) is not int or value < 1:
            raise ConfigError(
                f"Compaction: {name} must be an integer of at least 1; got {value!r:.80}"
            )

    def window(self, of_profile: int) -> int:
        """Return the size of the context window, in tokens.

        Args:
            of_profile: The size in the provider's profile; 0: unknown.
        """
        return self.context_window or of_profile or DEFAULT_CONTEXT_WINDOW

    def limit(self, of_profile: int) -> int:
        """Return the size of a request above which a compaction is due, in tokens.

        Args:
            of_profile: The size of the context window in the provider's profile; 0: unknown.
        """
        return self.tokens or int(self.window(of_profile) * self.threshold)


def as_compaction(value: object) -> Compaction | None:
    """Return the option, created from its short forms if necessary.

    Raises:
        ConfigError: The value is not valid.
    """
    if value is None or value is False:
        return None
    if isinstance(value, Compaction):
        return value
    if value is True:
        return Compaction()
    if isinstance(value, Mapping):
        table = {str(name): one for name, one in cast("Mapping[object, object]", value).items()}
        known = [field.name for field in attrs.fields(Compaction)]
        for name in table:
            if name not in known:
                raise ConfigError(
                    f"AgentOptions: compaction has no field {name!r}; {nearest(name, known)}"
                )
        return cast("Callable[..., Compaction]", Compaction)(**table)
    raise ConfigError(
        f"AgentOptions: compaction must be True, False, a table or Compaction; got {value!r:.80}"
    )

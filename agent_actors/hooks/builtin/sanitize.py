"""`SanitisePrompt`: a hook that reduces prompts to their visible text.

The hook is stateless. It removes text that people cannot see but models can read (for example, in
pasted web pages), limits the length, and refuses unwanted prompts. It does not protect against
visible instructions.
"""

import re
from collections.abc import Iterable
from typing import Final

from agent_actors.errors import ConfigError
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import UserPromptSubmitEvent
from agent_actors.hooks.hook import Hook, HookContext

# Default maximum number of characters. A longer prompt should be sent as a file.
MAX_CHARACTERS: Final = 100_000

# Escape sequences that change a terminal's colors, move its cursor or set its title.
_TERMINAL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_LINE_END: Final = re.compile("\r\n|[\r\x85\u2028\u2029]")
# The flags of England, Scotland and Wales, the only legitimate use of tag characters.
_FLAGS: Final = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
# Control characters except tabs and line ends, and characters that hide text or change its
# direction: zero-width spaces, soft hyphens, directional marks and overrides, and tags. Joiners are
# kept, because some scripts need them.
_UNSEEN: Final = re.compile(
    f"({_FLAGS})|"
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# A single selector changes the look of the character before it, but a series of selectors can
# encode any text.
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")


class SanitisePrompt(Hook):
    """Removes invisible text from prompts, and refuses prompts that are too long or unwanted.

    A refused prompt is not stored, and its run ends with `blocked:user_prompt_submit`.

    Args:
        refuse: Patterns that match unwanted prompts. A string is compiled to a case-insensitive
            regular expression.
        max_characters: Maximum length of a prompt.

    Raises:
        ConfigError: `max_characters` is below 1, or a pattern is invalid.
    """

    name = "sanitise_prompt"

    def __init__(
        self,
        refuse: Iterable[str | re.Pattern[str]] = (),
        *,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        if max_characters < 1:
            raise ConfigError(
                f"SanitisePrompt: max_characters must be at least 1; got {max_characters}"
            )
        self._max = max_characters
        try:
            self._refuse = [re.compile(one, _flags(one)) for one in refuse]
        except re.error as error:
            raise ConfigError(
                f"SanitisePrompt: invalid pattern {error.pattern!r}: {error}"
            ) from None

    async def user_prompt_submit(
        self, event: UserPromptSubmitEvent, ctx: HookContext
    ) -> HookDecision | None:
        """Clean the prompt, or refuse it."""
        if len(event.prompt) > self._max:
            return _refused(
                f"the prompt has {len(event.prompt)} characters; at most {self._max} are allowed"
            )
        prompt = clean_prompt(event.prompt)
        if not prompt.strip():
            blank = not event.prompt.strip()
            return None if blank else _refused("the prompt has no visible text")
        if any(pattern.search(prompt) for pattern in self._refuse):
            return _refused("the prompt is not allowed")
        return None if prompt == event.prompt else HookDecision(modified_prompt=prompt)


def clean_prompt(text: str) -> str:
    """Return the text without terminal sequences, control characters and invisible characters.

    Every line end becomes a line feed. The text is not normalized in any other way.
    """
    text = _TERMINAL.sub("", text)
    text = _LINE_END.sub("\n", text)
    return _SELECTORS.sub("", _UNSEEN.sub(lambda found: found[1] or "", text))


def _flags(pattern: str | re.Pattern[str]) -> int:
    return re.IGNORECASE if isinstance(pattern, str) else 0


def _refused(reason: str) -> HookDecision:
    return HookDecision(continue_=False, reason=reason)

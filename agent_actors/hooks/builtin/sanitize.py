"""SanitisePrompt: what a person, or a page that was pasted, says is plain text of a bounded length.

It has no state. It takes out what is not seen and can still be read by a model, and refuses what
the caller does not want said. It is no defence against what is said in plain words.
"""

import re
from collections.abc import Iterable
from typing import Final

from agent_actors.errors import ConfigError
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import UserPromptSubmitEvent
from agent_actors.hooks.hook import Hook, HookContext

# Characters; a prompt beyond is a file, and should be sent as one.
MAX_CHARACTERS: Final = 100_000

# Sequences that colour a terminal, move its cursor or name its window.
_TERMINAL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_LINE_END: Final = re.compile("\r\n|[\r\x85\u2028\u2029]")
# The flags of England, Scotland and Wales are the only text that is written with tag characters.
_FLAGS: Final = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
# Control characters but for tab and line end; what hides text or turns its direction: zero-width
# spaces, soft hyphens, marks and overrides of direction, tags. Joiners stay, scripts need them.
_UNSEEN: Final = re.compile(
    f"({_FLAGS})|"
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# One selects how the character before it looks; a row of them selects nothing, and spells anything.
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")


class SanitisePrompt(Hook):
    """Takes out of prompts what nobody sees, and refuses those that are too long or not wanted.

    A refused prompt ends the run with `blocked:user_prompt_submit`, and is not kept.

    Args:
        refuse: Patterns that no prompt may hold; text is a regular expression, in any case of its
            letters.
        max_characters: The longest that a prompt may be.

    Raises:
        ConfigError: A bound below 1, or a pattern that is none.
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
            raise ConfigError(f"SanitisePrompt: {error.pattern!r} is no pattern: {error}") from None

    async def user_prompt_submit(
        self, event: UserPromptSubmitEvent, ctx: HookContext
    ) -> HookDecision | None:
        """Clean the prompt, or refuse it."""
        if len(event.prompt) > self._max:
            return _refused(f"the prompt has {len(event.prompt)} characters, at most {self._max}")
        prompt = clean_prompt(event.prompt)
        if not prompt.strip():
            blank = not event.prompt.strip()
            return None if blank else _refused("nothing of the prompt can be seen")
        if any(pattern.search(prompt) for pattern in self._refuse):
            return _refused("the prompt asks for what is not allowed here")
        return None if prompt == event.prompt else HookDecision(modified_prompt=prompt)


def clean_prompt(text: str) -> str:
    """The text without terminal sequences, control characters and what hides in plain sight.

    Every line end becomes a line feed. What is left is not normalised: it is what the person wrote.
    """
    text = _TERMINAL.sub("", text)
    text = _LINE_END.sub("\n", text)
    return _SELECTORS.sub("", _UNSEEN.sub(lambda found: found[1] or "", text))


def _flags(pattern: str | re.Pattern[str]) -> int:
    return re.IGNORECASE if isinstance(pattern, str) else 0


def _refused(reason: str) -> HookDecision:
    return HookDecision(continue_=False, reason=reason)

"""TruncateOutput: what a tool gives back is kept to a size that a conversation can carry.

It has no state. Register it last: what comes after it may make a result long again.
"""

import json
from collections.abc import Collection
from typing import Final

from agent_actors.codec.blocks import load_block
from agent_actors.domain.blocks import TextBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.errors import ConfigError, MessageError
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import PostToolUseEvent
from agent_actors.hooks.hook import Hook, HookContext

# Characters; some 20,000 tokens, which is a sixth of a common context.
LIMIT: Final = 80_000
# Characters that are kept of each end.
KEEP: Final = 2_000
# Tools that bound what they give, and of which each character counts: a file that is read with a
# hole in it is edited wrongly. Names are compared without case, `_` and `-`.
SELF_BOUNDED: Final = (
    "ls",
    "glob",
    "grep",
    "read",
    "read_file",
    "edit",
    "edit_file",
    "multi_edit",
    "write",
    "write_file",
)


class TruncateOutput(Hook):
    """Cuts the middle out of long results of tools, before the model and the log get them.

    What is structured is told as the beginning and the end of its JSON. Images and files of a
    result stay, and do not count. A result's `data`, which only the caller sees, stays whole.

    Args:
        limit: Characters that a result may have.
        keep: Characters that are kept of the beginning and of the end of a longer one.
        exclude: Tools that are left alone, under any spelling of these names.

    Raises:
        ConfigError: What is kept does not fit the limit.
    """

    name = "truncate_output"

    def __init__(
        self,
        limit: int = LIMIT,
        keep: int = KEEP,
        exclude: Collection[str] = SELF_BOUNDED,
    ) -> None:
        if keep < 0 or limit < 2 * keep:
            raise ConfigError(
                f"TruncateOutput: limit must be at least twice keep, and keep not negative; "
                f"got limit={limit} and keep={keep}"
            )
        self._limit = limit
        self._keep = keep
        self._exclude = frozenset(map(_plain_name, exclude))

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """Cut what is too long."""
        if _plain_name(event.tool_name) in self._exclude:
            return None
        text, media = _text_and_media(event.tool_result)
        if len(text) <= self._limit:
            return None
        cut = self.cut(text)
        told: str | list[JsonValue] = [{"type": "text", "text": cut}, *media] if media else cut
        return HookDecision(modified_output=told, reason=f"{len(text)} characters")

    def cut(self, text: str) -> str:
        """The text, or its two ends around how much there was between them."""
        if len(text) <= self._limit:
            return text
        between = len(text) - 2 * self._keep
        tail = text[len(text) - self._keep :]
        return f"{text[: self._keep]}\n... (truncated {between} characters) ...\n{tail}"


def _plain_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _text_and_media(content: str | JsonObject | list[JsonValue]) -> tuple[str, list[JsonValue]]:
    if isinstance(content, str):
        return content, []
    if isinstance(content, dict):
        return _as_json(content), []
    try:
        blocks = [load_block(part) for part in content]
    except MessageError:  # a list of anything, whatever its items say that they are
        return _as_json(content), []
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    media = [
        part
        for part, block in zip(content, blocks, strict=True)
        if not isinstance(block, TextBlock)
    ]
    return text, media


def _as_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)

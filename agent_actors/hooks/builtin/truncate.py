"""`TruncateOutput`: a hook that limits the size of tool results.

The hook is stateless. Register it last, because hooks that run later may make a result long again.
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

# Default maximum number of characters: about 20,000 tokens, a sixth of a typical context.
LIMIT: Final = 80_000
# Default number of characters to keep at each end.
KEEP: Final = 2_000
# Tools that limit their results themselves and whose results must be complete: if a model reads a
# file with a gap, it edits the file wrongly. Names are compared ignoring case, `_` and `-`.
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
    """Removes the middle of long tool results, before the model and the log receive them.

    A structured result is replaced by the beginning and the end of its JSON text. Images and files
    in a result are kept and do not count. A result's `data`, which only the caller sees, is not
    truncated.

    Args:
        limit: Maximum number of characters of a result.
        keep: Number of characters to keep at the beginning and at the end of a longer result.
        exclude: Names of tools whose results are not truncated. Case, `_` and `-` are ignored.

    Raises:
        ConfigError: `limit` is less than twice `keep`, or `keep` is negative.
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
                "TruncateOutput: limit must be at least twice keep, and keep must not be negative; "
                f"got limit={limit} and keep={keep}"
            )
        self._limit = limit
        self._keep = keep
        self._exclude = frozenset(map(_plain_name, exclude))

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """Truncate a result that is too long."""
        if _plain_name(event.tool_name) in self._exclude:
            return None
        text, media = _text_and_media(event.tool_result)
        if len(text) <= self._limit:
            return None
        cut = self.cut(text)
        content: str | list[JsonValue] = [{"type": "text", "text": cut}, *media] if media else cut
        return HookDecision(modified_output=content, reason=f"{len(text)} characters")

    def cut(self, text: str) -> str:
        """Return the text, whose middle is replaced with a notice if the text is too long."""
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
    except MessageError:  # a list of arbitrary values, even if its items have a `type`
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

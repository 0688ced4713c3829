"""`RedactSecrets`: a hook that removes secrets from tool results and responses.

The hook is stateless. It finds secrets that have a distinctive format (for example, a known
prefix), so that other text stays unchanged. It cannot find secrets without such a format, because a
password may be any word. Each pattern takes linear time, even for adversarial text, because no
match can begin in the middle of another match.
"""

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, TypeAlias, cast

import attrs

from agent_actors.domain.blocks import ToolUseBlock
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.hooks.decision import HookDecision
from agent_actors.hooks.events import AfterModelEvent, PostToolUseEvent
from agent_actors.hooks.hook import Hook, HookContext, ToolCall
from agent_actors.tools.output import ToolOutput


@attrs.frozen
class SecretShape:
    """The format of a secret.

    Attributes:
        name: The name in the replacement text: `[redacted <name>]`.
        pattern: The pattern of the secret. If it has a group named `secret`, only this group is
            replaced.
    """

    name: str
    pattern: re.Pattern[str]

    def redact(self, text: str) -> str:
        """Return the text with all secrets of this format replaced."""
        return self.pattern.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        original, mark = found[0], f"[redacted {self.name}]"
        if "secret" not in self.pattern.groupindex:
            return mark
        start, end = (at - found.start() for at in found.span("secret"))
        return original[:start] + mark + original[end:]


# No match within a word, so that a series of such characters is searched only once, from its
# beginning.
_START: Final = r"(?<![A-Za-z0-9_-])"
_WORD: Final = "[A-Za-z0-9_-]"


def _token(name: str, pattern: str) -> SecretShape:
    return SecretShape(name, re.compile(_START + pattern))


SECRET_SHAPES: Final = (
    SecretShape(
        "private key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
            r"[^-]*(?:-(?!----)[^-]*)*(?:-----END [A-Z0-9 ]{0,64}-----)?"
        ),
    ),
    _token("AWS access key", r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    SecretShape(
        "AWS secret key",
        re.compile(
            r"(?i)aws_?secret_?(?:access_?)?key[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
            r"(?P<secret>[a-z0-9/+=]{40})"
        ),
    ),
    _token("GitHub token", r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    _token("GitLab token", rf"glpat-{_WORD}{{20,}}"),
    _token("Slack token", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    _token("API key", rf"sk-{_WORD}{{20,}}"),
    _token("Google key", rf"AIza{_WORD}{{35}}"),
    _token("Stripe key", r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _token("npm token", r"npm_[A-Za-z0-9]{36}"),
    _token("PyPI token", rf"pypi-{_WORD}{{50,}}"),
    _token("Hugging Face token", r"hf_[A-Za-z0-9]{30,}"),
    _token("JSON web token", rf"eyJ{_WORD}{{8,}}\.eyJ{_WORD}{{8,}}\.{_WORD}{{8,}}"),
    SecretShape(
        "bearer token",
        re.compile(
            r"(?i)(?<![a-z0-9])bearer\s{1,4}"
            r"(?P<secret>(?=[^\s\d]{0,64}\d)[a-z0-9._~+/=-]{20,})"
        ),
    ),
    SecretShape(
        "password",
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,64}:"
            r"(?P<secret>[^\s/@]{1,256})@"
        ),
    ),
)
"""The default formats."""

ASSIGNED_SECRET: Final = SecretShape(
    "secret",
    re.compile(
        r"(?i)(?:api[_-]?key|secret|token|passw(?:or)?d)[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
        r"(?P<secret>[^\s\"',;()]{8,256})"
    ),
)
"""Any value assigned to a name such as `password`. It finds more secrets, but also many false ones.
"""

_BYTES: Final = re.compile(r"data:[^,\s]{0,256};base64,[A-Za-z0-9+/=]*")
_Content: TypeAlias = str | JsonObject | list[JsonValue]


class RedactSecrets(Hook):
    """Removes secrets from tool results and from responses of the model.

    A tool result is redacted before other hooks, the model, the log or the caller see it. A
    response is redacted before it is stored, but its deltas have already been emitted by then,
    unless the agent has `withhold_deltas`. Thinking, progress and the arguments of calls are not
    redacted.

    Args:
        shapes: The formats to look for.
    """

    name = "redact_secrets"

    def __init__(self, shapes: Iterable[SecretShape] = SECRET_SHAPES) -> None:
        self._shapes = tuple(shapes)

    async def wrap_tool_call(
        self, call: ToolUseBlock, call_next: ToolCall, ctx: HookContext
    ) -> ToolOutput:
        """Redact the tool's result, including its `data`."""
        output = await call_next(call)
        content, data = self._clean_content(output.content), self.clean(output.data)
        if content == output.content and data == output.data:
            return output
        return attrs.evolve(output, content=content, data=data)

    async def after_tool(self, event: PostToolUseEvent, ctx: HookContext) -> HookDecision | None:
        """Redact the result again, because inner hooks may have replaced it."""
        content = self._clean_content(event.tool_result)
        if content == event.tool_result:
            return None
        return HookDecision(modified_output=content, reason="secrets")

    async def after_model(self, event: AfterModelEvent, ctx: HookContext) -> HookDecision | None:
        """Redact a response."""
        text = self.redact(event.text)
        if text == event.text:
            return None
        return HookDecision(modified_output=text, reason="secrets")

    def redact(self, text: str) -> str:
        """Return the text with all secrets replaced."""
        for shape in self._shapes:
            text = shape.redact(text)
        return text

    def clean(self, value: JsonValue) -> JsonValue:
        """Return the JSON value with secrets replaced in every text, including the keys of objects.

        The bytes of images and files stay unchanged.
        """
        return _mapped(value, self.redact)

    def _clean_content(self, content: _Content) -> _Content:
        if not isinstance(content, list):
            return cast(_Content, self.clean(content))
        # A model receives adjacent texts as one text, so a secret may span two of them.
        parts: list[JsonValue] = []
        for is_text, run in groupby(content, _is_text):
            found = list(run)
            original = "".join(str(cast(JsonObject, part)["text"]) for part in found if is_text)
            cleaned = cast(list[JsonValue], self.clean(found))
            shown = "".join(str(cast(JsonObject, part)["text"]) for part in cleaned if is_text)
            redacted = self.redact(original)
            whole_part: JsonObject = {"type": "text", "text": redacted}
            parts.extend(cleaned if shown == redacted else (whole_part,))
        return parts


def _is_text(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") == "text" and "text" in part


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        change(key): item if _is_bytes(key, item) else _mapped(item, change)
        for key, item in value.items()
    }


def _is_bytes(key: str, value: JsonValue) -> bool:
    # The base64 of an image or a file, in which anything that looks like a key is most likely a
    # coincidence.
    return key == "source" and isinstance(value, str) and _BYTES.fullmatch(value) is not None

"""Messages and conversations in a provider-neutral form.

A message is a role and a tuple of blocks. Properties such as `content` and `tool_calls` are
computed from the blocks. A conversation (`Messages`) is immutable: its builder methods return a
longer one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias, get_args, overload

import attrs

from agent_actors.domain.blocks import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agent_actors.domain.json import JsonObject, JsonValue
from agent_actors.domain.usage import estimate_tokens
from agent_actors.errors import MessageError

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
USER_INPUT_ROLES: Final[tuple[Role, ...]] = ("system", "user")

# Roughly the number of tokens that providers count for an image of one megapixel. A file that is
# not text counts the same, because its number of pages is unknown.
TOKENS_PER_IMAGE: Final = 1000


def valid_role(role: str) -> bool:
    """Return whether the role is valid: `system`, `user`, `assistant` or `tool`."""
    return role in ROLES


def user_input_role(role: str) -> bool:
    """Return whether callers may use the role: `system` or `user`."""
    return role in USER_INPUT_ROLES


@attrs.frozen
class Message:
    """A message.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`; checked by `validate`.
        blocks: The content, in order.
        refused: True for a response that the endpoint refused or filtered. It stays in the history;
            by default it is not sent again.
    """

    role: Role
    blocks: tuple[ContentBlock, ...] = ()
    refused: bool = attrs.field(default=False, kw_only=True)

    @property
    def content(self) -> str:
        """The joined text blocks; for a tool message, the result as text."""
        if len(self.blocks) == 1 and isinstance(self.blocks[0], TextBlock):
            return self.blocks[0].text
        return "".join(
            block.text for block in self.blocks if isinstance(block, TextBlock | ToolResultBlock)
        )

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls in the message, in the model's order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUseBlock))

    @property
    def tool_call_id(self) -> str:
        """For a tool message, the id of the call that produced the result; otherwise empty."""
        return next((b.tool_use_id for b in self.blocks if isinstance(b, ToolResultBlock)), "")

    @property
    def name(self) -> str:
        """For a tool message, the tool's name; otherwise empty."""
        return next((b.name for b in self.blocks if isinstance(b, ToolResultBlock)), "")

    def validate(self, *, index: int | None = None) -> None:
        """Validate this message, independently of any conversation.

        Args:
            index: Position of the message in its conversation, for the error message.

        Raises:
            MessageError: The message breaks a rule.
        """
        error = _find_error(self)
        if error:
            where = "" if index is None else f"message {index}: "
            raise MessageError(where + error, index=index)

    def estimate_tokens(self) -> int:
        """Return a rough token count: a quarter of the number of characters.

        The content, the arguments of calls and the content of text files are counted. An image or
        any other file counts as 1,000 tokens.
        """
        calls = sum(estimate_tokens(len(c.arguments_text)) for c in self.tool_calls)
        media = sum(map(_media_tokens, self.blocks))
        return estimate_tokens(len(self.content)) + calls + media

    def pretty(self) -> str:
        """Format the message for display: role, content, and one line for each call."""
        if self.role == "tool":
            heading = f"[Tool: {self.name} (call_id={self.tool_call_id})]"
        else:
            heading = _HEADINGS.get(self.role, f"[{self.role}]")
        labels = [b.label for b in self.blocks if isinstance(b, ImageBlock | FileBlock)]
        calls = [f"  -> {c.name}({c.arguments_text}) (call_id={c.id})" for c in self.tool_calls]
        return "\n".join(
            [" ".join(filter(None, [heading, self.content, *labels])).rstrip(), *calls]
        )


_HEADINGS: Final[dict[Role, str]] = {
    "system": "[System]",
    "user": "[Human]",
    "assistant": "[AI]",
}


def _find_error(message: Message) -> str:
    if not valid_role(message.role):
        return f"unknown role {message.role!r}; expected one of {', '.join(ROLES)}"
    if message.role == "tool":
        return _find_tool_error(message)
    if message.role == "assistant":
        return _find_assistant_error(message)
    has_part = any(
        isinstance(block, ImageBlock | FileBlock | OpaqueBlock) for block in message.blocks
    )
    if not message.content.strip() and not has_part:
        return f"a {message.role} message needs content, but this one is empty"
    return ""


def _find_tool_error(message: Message) -> str:
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    if not results or not all(result.tool_use_id for result in results):
        return "a tool message needs the id of its call (tool_call_id)"
    if not all(result.name for result in results):
        return "a tool message needs the name of its tool"
    return ""


def _find_assistant_error(message: Message) -> str:
    has_opaque = any(isinstance(block, OpaqueBlock) for block in message.blocks)
    if not message.content and not message.tool_calls and not has_opaque:
        return "an assistant message needs content or tool calls, but this one has neither"
    for position, call in enumerate(message.tool_calls):
        if not call.id:
            return f"tool call {position} ({call.name or 'unnamed'}) has no id"
        if not call.name:
            return f"tool call {position} ({call.id}) has no name"
    return ""


def _media_tokens(block: ContentBlock) -> int:
    if isinstance(block, ImageBlock):
        return TOKENS_PER_IMAGE
    if isinstance(block, FileBlock):
        text = block.text
        return TOKENS_PER_IMAGE if text is None else estimate_tokens(len(text))
    if isinstance(block, ToolResultBlock) and isinstance(block.content, list):
        shown = [part for part in block.content if isinstance(part, dict)]
        return TOKENS_PER_IMAGE * sum(part.get("type") in {"image", "file"} for part in shown)
    return 0


def system(text: str) -> Message:
    """Return a system message."""
    return Message("system", (TextBlock(text),))


def user(content: str | Iterable[ContentBlock]) -> Message:
    """Return a user message with text or blocks."""
    return Message("user", _blocks(content))


def assistant(
    content: str | Iterable[ContentBlock] = (), tool_calls: Iterable[ToolUseBlock] = ()
) -> Message:
    """Return an assistant message with text or blocks, and with tool calls."""
    return Message("assistant", (*_blocks(content), *tool_calls))


def tool(
    tool_call_id: str,
    name: str,
    content: str | JsonObject | list[JsonValue],
    *,
    is_error: bool = False,
) -> Message:
    """Return a tool message with the result of one tool call."""
    return Message("tool", (ToolResultBlock(tool_call_id, content, is_error, name),))


def _blocks(content: str | Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextBlock(content),) if content else ()
    return tuple(content)


def _as_tuple(items: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(items)


@attrs.frozen
class Messages(Sequence[Message]):
    """An immutable sequence of messages with builder methods.

    Example:
        `Messages().system("Be brief.").user("Hello?").assistant("Hello.")`
    """

    _items: tuple[Message, ...] = attrs.field(default=(), converter=_as_tuple)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> "Messages": ...
    def __getitem__(self, index: int | slice) -> "Message | Messages":
        if isinstance(index, slice):
            return Messages(self._items[index])
        return self._items[index]

    def append(self, *messages: Message) -> "Messages":
        """Return a conversation with these messages appended."""
        return Messages((*self._items, *messages))

    def system(self, text: str) -> "Messages":
        """Return a conversation with a system message appended."""
        return self.append(system(text))

    def user(self, content: str | Iterable[ContentBlock]) -> "Messages":
        """Return a conversation with a user message appended."""
        return self.append(user(content))

    def assistant(
        self, content: str | Iterable[ContentBlock] = (), tool_calls: Iterable[ToolUseBlock] = ()
    ) -> "Messages":
        """Return a conversation with an assistant message appended."""
        return self.append(assistant(content, tool_calls))

    def tool(
        self,
        tool_call_id: str,
        name: str,
        content: str | JsonObject | list[JsonValue],
        *,
        is_error: bool = False,
    ) -> "Messages":
        """Return a conversation with the result of one tool call appended."""
        return self.append(tool(tool_call_id, name, content, is_error=is_error))

    def by_role(self, role: Role) -> "Messages":
        """Return the messages with this role, in order."""
        return Messages(message for message in self._items if message.role == role)

    def system_messages(self) -> "Messages":
        """Return the system messages."""
        return self.by_role("system")

    def user_messages(self) -> "Messages":
        """Return the user messages."""
        return self.by_role("user")

    def assistant_messages(self) -> "Messages":
        """Return the assistant messages."""
        return self.by_role("assistant")

    def tool_messages(self) -> "Messages":
        """Return the messages with tool results."""
        return self.by_role("tool")

    def last(self) -> Message | None:
        """Return the last message; None if there is none."""
        return self._items[-1] if self._items else None

    def last_content(self) -> str:
        """Return the last message's text; empty if there is no message."""
        return self._items[-1].content if self._items else ""

    def as_tuple(self) -> tuple[Message, ...]:
        """Return the messages as a tuple."""
        return self._items

    def validate(self) -> None:
        """Validate each message, independently of the others.

        Raises:
            MessageError: A message breaks a rule; the error names the first such message.
        """
        for index, message in enumerate(self._items):
            message.validate(index=index)

    def validate_user_input(self) -> None:
        """Check that a caller may send these messages: at least one, with role system or user only.

        Raises:
            MessageError: There is no message, or one breaks a rule.
        """
        if not self._items:
            raise MessageError("expected at least one user or system message, but there is none")
        for index, message in enumerate(self._items):
            if not user_input_role(message.role):
                raise MessageError(
                    f"message {index}: role {message.role!r} is not allowed here; "
                    "expected user or system",
                    index=index,
                )
            message.validate(index=index)

    def estimate_tokens(self) -> int:
        """Return the sum of the messages' rough token counts (see `Message.estimate_tokens`)."""
        return sum(message.estimate_tokens() for message in self._items)

    def pretty(self) -> str:
        """Format the messages for display."""
        return "\n".join(message.pretty() for message in self._items)

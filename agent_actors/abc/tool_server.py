"""The port for a server of remote tools, and the values that cross it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs

from agent_actors.domain.blocks import FileBlock, ImageBlock, TextBlock
from agent_actors.domain.json import JsonObject, JsonValue

RemoteBlock: TypeAlias = TextBlock | ImageBlock | FileBlock


@attrs.frozen
class RemoteTool:
    """A tool as its server describes it; nothing in it is trusted.

    Attributes:
        name: The name at the server.
        description: The description for the model; may be empty.
        input_schema: The JSON Schema of the arguments, not validated.
    """

    name: str
    description: str
    input_schema: Mapping[str, JsonValue] = attrs.field(repr=False)


@attrs.frozen
class RemoteResult:
    """The result of a remote call.

    Attributes:
        content: The content for the model.
        data: The structured content; None if there is none.
        is_error: True if the server reported that the tool failed.
    """

    content: tuple[RemoteBlock, ...]
    data: JsonValue = None
    is_error: bool = False


class ToolServer(Protocol):
    """One connection to a server of tools; it is used once."""

    @property
    def is_live(self) -> bool:
        """True from the call of `ready` until the connection is closed or broken."""
        ...

    @property
    def tools_changed(self) -> bool:
        """True if the server reported a change since `list_tools` was last called."""
        ...

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Connect, call `ready`, and keep the connection until it ends.

        Args:
            ready: Called once, as soon as `list_tools` and `call_tool` may be called. The
                connection ends if it raises an exception.

        Raises:
            ToolServerError: The connection could not be made, or it broke.

        Cancellation: closes the connection. A process of the server has ended when this method
        ends; there is a time limit.
        """
        ...

    def close(self) -> None:
        """Ask `run` to close the connection and end. Idempotent."""
        ...

    async def list_tools(self, limit: int) -> Sequence[RemoteTool]:
        """Return the tools of the server, but at most `limit` of them and one more.

        Raises:
            ToolServerError: The server failed.

        Cancellation: safe.
        """
        ...

    async def call_tool(
        self, name: str, arguments: JsonObject, report: Callable[[JsonValue], None]
    ) -> RemoteResult:
        """Call a tool.

        Args:
            name: The name at the server.
            arguments: The arguments, already validated.
            report: Called with each progress report of the server.

        Raises:
            ToolServerError: The call failed, or the connection broke.

        Cancellation: the server is notified that the call is cancelled.
        """
        ...

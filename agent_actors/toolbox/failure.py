"""The failure of a call of a built-in tool."""


class ToolFailure(Exception):
    """The call cannot be carried out; the message is the error result for the model."""

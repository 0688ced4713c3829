"""One run: opening, the loop of model calls and tool calls, and closing."""

"""The tool calls of one run: offered tools, hooks, permissions and deferred calls."""

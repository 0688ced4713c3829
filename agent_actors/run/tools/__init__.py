"""Tool calls of one run: offered tools, hooks, permissions, deferred calls."""

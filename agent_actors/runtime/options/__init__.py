"""Completes the options of a run: built-in tools, and the values that factories return."""

"""Agents that a run starts with the tool `Task`."""

"""Assemble the chunks of a model's response into blocks: text, thinking and tool calls."""

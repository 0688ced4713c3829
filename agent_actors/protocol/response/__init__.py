"""From the chunks of a model's response to its blocks: text, thinking and tool calls."""

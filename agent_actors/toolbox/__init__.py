"""Built-in tools: files, search, commands, the web and todos, and the workspaces they work in."""

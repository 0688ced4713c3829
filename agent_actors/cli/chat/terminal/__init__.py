"""A chat in a terminal: editor, screen and streaming Markdown."""

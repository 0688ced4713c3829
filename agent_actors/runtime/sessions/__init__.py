"""`runtime.sessions`: list, read, change and control sessions."""

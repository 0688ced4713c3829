"""Stores for session logs. Each adapter implements the `SessionStore` port in its own file."""

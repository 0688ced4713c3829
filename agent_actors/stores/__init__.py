"""Stores of session logs. Each adapter implements the `SessionStore` port in a file of its own."""

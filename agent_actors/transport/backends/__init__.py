"""Implementations of `ByteExchange`: the native engine and httpx."""

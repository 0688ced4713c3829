"""Adapters between the wire protocols of models and the neutral types of this package."""

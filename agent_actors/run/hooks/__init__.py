"""Hooks of one run: the chain, its phases and the validation of decisions."""

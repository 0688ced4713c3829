"""Immutable value types that all other packages use; no I/O, no imports from other packages."""

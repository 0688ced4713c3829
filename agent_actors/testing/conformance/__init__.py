"""Conformance checks: one turn gives the same blocks, whatever the quirks and the split."""

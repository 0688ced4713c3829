"""Adapters between models' wires and the neutral pieces that the rest of the house speaks of."""

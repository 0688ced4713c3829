"""Checks of the events of a run, and the recorded traffic of an endpoint."""

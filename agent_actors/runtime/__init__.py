"""The runtime: options, the driver of a run, and the face that callers use."""

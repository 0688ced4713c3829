"""State machines without I/O: bytes or events in, events or commands out. No clock, no awaits."""

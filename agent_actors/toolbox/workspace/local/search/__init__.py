"""Search by name and by content."""

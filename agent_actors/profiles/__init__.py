"""Known providers as plain data: endpoint, key, dialect and defaults."""

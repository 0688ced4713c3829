"""Known providers as plain data: endpoint, API key variables, dialect and defaults."""

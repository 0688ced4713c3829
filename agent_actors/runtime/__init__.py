"""`open_runtime()` and `Runtime`: start runs, control sessions, answer questions, see events."""

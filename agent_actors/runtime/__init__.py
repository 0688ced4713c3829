"""`open_runtime()` and `Runtime`: start runs, manage sessions, answer questions, watch events."""

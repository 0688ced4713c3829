"""`query()`, `run()`, `run_sync()` and `Client`: conversations without opening a runtime."""
